"""One thread a process: on the small networks of the tests more threads are slower, by far when cores are shared."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start

import torch

torch.set_num_threads(1)

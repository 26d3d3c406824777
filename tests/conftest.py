"""One thread a process: on the small networks of the tests more threads are slower, by far when cores are shared."""

import torch

torch.set_num_threads(1)

"""The paper's tables and figures. A file ends with its `EXPERIMENT` (results/experiment.py): `groups` give rows,
`table` and `draw` turn rows into what the paper shows. To add one, write it and add it to `FILES` in reproduce.py."""

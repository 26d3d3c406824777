"""The paper's tables and figures, one file each: `run` gives rows, `table` and `draw` turn rows into what the paper
shows.

    NAME, TITLE                     what it is called
    DOMAINS, METHODS, BLOCKS          what can be selected, so that a run can be split
    run(settings)                   groups of rows (rows.py), one group a domain, seed and method
    table(rows)                     lines of markdown: mean and 95 % interval, the paper's number beside ours
    draw(rows, arrays)              figures by name, from the rows and from the arrays that `run` saved

To add one: write its file and add it to `FILES` in reproduce.py.
"""

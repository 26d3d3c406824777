"""`python -m plan2vec` is the same program as `plan2vec`."""

from plan2vec.commands.main import program

if __name__ == "__main__":
    program()

"""Solutions of chapter 1."""
import lamina
import lamina.numpy as jnp

# 1. A chess board: the sum of the two indices is even or odd.
board = (jnp.arange(8)[:, None] + jnp.arange(8)) % 2
assert board.shape == (8, 8)
assert board[0, 0] == 0 and board[0, 1] == 1 and board[1, 1] == 0


# 2. Two index arrays name the elements of the diagonal.
def set_diagonal(matrix, value):
    index = jnp.arange(matrix.shape[0])
    return matrix.at[index, index].set(value)


zeros = jnp.zeros((3, 3))
assert (set_diagonal(zeros, 1.0) == jnp.eye(3)).all()
assert (zeros == 0).all()  # unchanged

# 3. Negative indices count from the end. -4 is out of bounds, so the nearest element is read: the first one.
x = jnp.array([10.0, 20.0, 30.0])
assert x[-1] == 30 and x[-4] == 10
with lamina.debug_bounds(True):
    try:
        x[-4].block_until_ready()
    except IndexError:
        pass
    else:
        raise AssertionError("debug_bounds reports the index")

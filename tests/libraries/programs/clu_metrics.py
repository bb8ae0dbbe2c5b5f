"""Collect metrics over batches, inside jit."""
import flax
import jax
import jax.numpy as jnp
from _report import show
from clu import metrics


@flax.struct.dataclass
class Scores(metrics.Collection):
    accuracy: metrics.Accuracy
    loss: metrics.Average.from_output("loss")
    spread: metrics.Std.from_output("loss")


@jax.jit
def evaluate(scores, logits, labels, loss):
    return scores.merge(Scores.single_from_model_output(logits=logits, labels=labels, loss=loss))


scores = Scores.empty()
for i in range(3):
    logits = jax.random.normal(jax.random.PRNGKey(i), (8, 4))
    scores = evaluate(scores, logits, jnp.arange(8) % 4, logits[:, 0] ** 2)
show(**{name: value for name, value in scores.compute().items()})

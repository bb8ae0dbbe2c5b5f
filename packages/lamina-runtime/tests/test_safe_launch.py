from lamina_runtime import safe_launch


class Fake:
    waited = 0

    def __init__(self, deleted=False):
        self.deleted = deleted

    def is_deleted(self):
        return self.deleted


def test_window_waits_for_the_oldest(monkeypatch):
    waited = []
    monkeypatch.setattr(safe_launch, "_wait", waited.append)
    w, outs = safe_launch.Window(), [Fake() for _ in range(20)]
    for o in outs:
        w.passed(o)
    assert waited == outs[:20 - safe_launch.WINDOW]
    w.drain()
    assert waited == outs


def test_window_holds_when_results_are_donated_onward(monkeypatch):
    waited = []
    monkeypatch.setattr(safe_launch, "_wait", waited.append)
    w = safe_launch.Window()
    gap, worst = 0, 0
    for _ in range(100):
        before, new = len(waited), Fake()
        w.passed(new)
        gap = 0 if len(waited) > before else gap + 1
        worst = max(worst, gap)
        new.deleted = True
    assert worst <= 2 * safe_launch.WINDOW and len(waited) > 5

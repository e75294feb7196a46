"""torch.compile on the stand-in GPU. The first compilation takes its time: the compiler is the real one."""


def test_inductor_trains(compiled):
    assert compiled.fact("inductor") == 6


def test_reduce_overhead_trains(compiled):
    assert compiled.fact("reduce_overhead") == 6


def test_triton_kernels_are_launched(compiled):
    kernels = compiled.fact("inductor_launches_its_own_kernels")
    assert any("relu" in name for name in kernels)

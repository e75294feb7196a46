"""What a program copies to the card stays true where it decides something, however little is kept."""


def test_an_optimizer_goes_on_where_its_checkpoint_ended(checkpoint):
    assert checkpoint.returncode == 0, checkpoint.output[-3000:]
    # The optimizer's counts lie on the card now; adding to them there is a kernel, which computes
    # nothing. A count that was lost would be 0, and the step would divide by it.
    assert checkpoint.fact("resumed_on_the_card") == [3.0]


def test_that_copies_were_not_kept_is_said_once(checkpoint):
    said = [line for line in checkpoint.output.splitlines() if "used up" in line]
    assert len(said) == 1 and "8 MiB" in said[0] and "--backing" in said[0], checkpoint.output

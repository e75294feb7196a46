"""Trainers of Hugging Face on two simulated GPUs: they gather shapes, losses and labels, and those must be true."""


def test_the_job_ends_well(trainer):
    assert trainer.returncode == 0, trainer.output[-3000:]


def test_trainer_trains_and_predicts(trainer):
    for rank in (0, 1):
        facts = trainer.fact("trainer", rank)
        assert facts["steps"] == 3
        assert facts["labels"] == [i % 2 for i in range(16)]
        assert facts["logits"] == [16, 2]
        assert facts["saved"]


def test_accelerate_gathers_true_values(trainer):
    for rank in (0, 1):
        facts = trainer.fact("accelerator", rank)
        assert facts["seen"] == [0, 1, 2, 3, 4, 5, 6, 7]
        assert facts["padded"] == [1.0, 1.0, 1.0 if rank else 0.0]

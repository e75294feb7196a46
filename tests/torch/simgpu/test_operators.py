"""Training on the stand-in GPU: what PyTorch calls, not what it computes."""

import pytest


def test_the_device_says_that_it_is_simulated(operators):
    device = operators.fact("device")
    assert "simgpu" in device["name"]
    assert device["memory"] == 24 << 30
    assert device["capability"] == [8, 0]


def test_the_start_up_line_warns_that_values_are_zeros(operators):
    lines = [line for line in operators.output.splitlines() if line.startswith("simgpu: running")]
    assert len(lines) == 1
    assert "values are zeros" in lines[0] and "times are modelled" in lines[0]


def test_autograd_with_adamw(operators):
    facts = operators.fact("autograd_with_adamw")
    assert facts["states"] == 6 * 3  # step and two moments for each of six parameters
    assert facts["loss"] == 0 and facts["norm"] == 0


def test_fused_and_foreach_optimizers(operators):
    assert operators.fact("fused_and_foreach_adamw") == [2, 2]


def test_bf16_autocast(operators):
    assert operators.fact("bf16_autocast") == ["torch.bfloat16", "torch.float32"]


def test_grad_scaler_steps(operators):
    # The scale lives on the device and is filled in by a kernel, so that it reads as 0; the optimizer has stepped.
    assert operators.fact("grad_scaler") == {"scale": 0, "momenta": 2}


@pytest.mark.parametrize(
    "backend, node",
    [
        ("flash", "ScaledDotProductFlashAttentionBackward0"),
        ("efficient", "ScaledDotProductEfficientAttentionBackward0"),
        ("cudnn", "ScaledDotProductCudnnAttentionBackward0"),
    ],
)
def test_attention_kernels(operators, backend, node):
    assert operators.fact("attention_backends")[backend] == node


def test_math_attention_is_not_fused(operators):
    assert "ScaledDotProduct" not in operators.fact("attention_backends")["math"]


def test_the_choice_of_attention_is_that_of_an_a100(operators):
    assert operators.fact("attention_that_pytorch_chooses") == {
        "fp32": "ScaledDotProductEfficientAttentionBackward0",
        "bf16": "ScaledDotProductFlashAttentionBackward0",
        "masked": "ScaledDotProductEfficientAttentionBackward0",
    }


def test_convolution_and_batch_norm_through_cudnn(operators):
    assert operators.fact("convolution_and_batch_norm") == {"shape": [2, 4, 10, 10], "grads": 6}


def test_benchmarked_channels_last_convolution(operators):
    facts = operators.fact("convolution_channels_last_bf16_benchmark")
    assert facts == {"shape": [2, 16, 9, 13], "channels_last": True}


@pytest.mark.parametrize(
    "network, shape",
    [
        ("lstm", [5, 3, 32]),
        ("lstm_projected", [5, 3, 5]),
        ("gru", [5, 3, 16]),
        ("rnn_without_bias", [5, 3, 16]),
    ],
)
def test_recurrent_networks_through_cudnn(operators, network, shape):
    assert operators.fact("recurrent_networks")[network] == [shape, []]


def test_recurrent_weights_lie_in_one_buffer(operators):
    facts = operators.fact("recurrent_weights_stay_one_buffer")
    assert facts["distinct"]
    assert facts["span"] < facts["size"]
    assert "not part of single contiguous chunk" not in operators.output


def test_embedding_indexing_topk(operators):
    assert operators.fact("embedding_and_indexing") == [[4, 8, 16], [7, 6], [10, 5], [50, 6]]


def test_a_product_takes_the_time_of_its_arithmetic(operators):
    times = operators.fact("matmul_takes_the_time_of_its_arithmetic")
    # 2 * 8192^3 operations at the 312 TFLOP/s of the data sheet are 3.5 ms; the model allows for a share of the peak.
    assert 3.5 < times["half"] < 3.5 * 3
    assert times["half"] == pytest.approx(8 * times["half_small"], rel=0.1)
    assert times["single"] == pytest.approx(16 * times["half"], rel=0.1)
    assert times["tf32"] == pytest.approx(2 * times["half"], rel=0.1)

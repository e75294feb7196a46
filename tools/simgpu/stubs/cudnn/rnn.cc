// Recurrent networks of cuDNN: where the weights lie in the one buffer that holds them all, and how
// large that is.
//
// The layout, which PyTorch relies on (it makes its weights views of the buffer and checks that
// they are adjacent):
//
//   | matrices of pseudo layer 0 | of 1 | ... | biases of pseudo layer 0 | of 1 | ... |
//   matrices of one layer:  input matrices of each gate, recurrent matrices of each gate, the
//   projection if there is one biases of one layer:    input biases of each gate, recurrent biases
//   of each gate
//
// A bidirectional network has two pseudo layers per layer. The matrix of a gate has `hidden` rows;
// an input matrix of the first layer has `input` columns, of a later one as many as the layer below
// has outputs.
#include <cudnn.h>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/cudnn/shape.h"

using namespace levee::simgpu::stubs;

namespace {

class Network {
 public:
  explicit Network(const void* descriptor) {
    const Object* object = Object::from(descriptor);
    if (object == nullptr) return;
    const std::string prefix = "cudnnRNNDescriptor.";
    mode_ = object->get<cudnnRNNMode_t>(prefix + "cellMode");
    bias_ = object->get<cudnnRNNBiasMode_t>(prefix + "biasMode");
    type_ = object->get<cudnnDataType_t>(prefix + "dataType");
    directions_ =
        object->get<cudnnDirectionMode_t>(prefix + "dirMode") == CUDNN_BIDIRECTIONAL ? 2 : 1;
    input_ = object->get<int32_t>(prefix + "inputSize");
    hidden_ = object->get<int32_t>(prefix + "hiddenSize");
    output_ =
        object->get<int32_t>(prefix + "projSize", object->get<int32_t>(prefix + "hiddenSize"));
    if (output_ == 0) output_ = hidden_;
    layers_ = object->get<int32_t>(prefix + "numLayers");
  }

  bool is_set() const { return layers_ > 0; }
  cudnnDataType_t type() const { return type_; }
  int64_t element_bytes() const { return static_cast<int64_t>(number_of(type_).bytes); }
  int64_t hidden() const { return hidden_; }
  int64_t output() const { return output_; }
  int64_t pseudo_layers() const { return int64_t{layers_} * directions_; }
  int64_t gates() const { return mode_ == CUDNN_LSTM ? 4 : mode_ == CUDNN_GRU ? 3 : 1; }
  bool has_projection() const { return output_ != hidden_; }
  /// Bias vectors per gate.
  int64_t biases() const {
    return bias_ == CUDNN_RNN_NO_BIAS ? 0 : bias_ == CUDNN_RNN_DOUBLE_BIAS ? 2 : 1;
  }
  /// Columns of the input matrices.
  int64_t inputs_of(int64_t pseudo_layer) const {
    return pseudo_layer < directions_ ? input_ : int64_t{directions_} * output_;
  }
  int64_t matrix_elements(int64_t pseudo_layer) const {
    const int64_t projection = has_projection() ? output() * hidden() : 0;
    return gates() * hidden() * (inputs_of(pseudo_layer) + output()) + projection;
  }
  /// Elements before the matrices of a pseudo layer.
  int64_t matrices_before(int64_t pseudo_layer) const {
    int64_t elements = 0;
    for (int64_t i = 0; i < pseudo_layer; ++i) elements += matrix_elements(i);
    return elements;
  }
  int64_t elements() const {
    return matrices_before(pseudo_layers()) + pseudo_layers() * biases() * gates() * hidden();
  }

 private:
  cudnnRNNMode_t mode_ = CUDNN_RNN_RELU;
  cudnnRNNBiasMode_t bias_ = CUDNN_RNN_DOUBLE_BIAS;
  cudnnDataType_t type_ = CUDNN_DATA_FLOAT;
  int32_t directions_ = 1;
  int32_t input_ = 0;
  int32_t hidden_ = 0;
  int32_t output_ = 0;
  int32_t layers_ = 0;
};

struct Sequences {
  int64_t steps = 0;
  int64_t batch = 0;

  explicit Sequences(const void* descriptor) {
    const Object* object = Object::from(descriptor);
    if (object == nullptr) return;
    steps = object->get<int>("cudnnRNNDataDescriptor.maxSeqLength");
    batch = object->get<int>("cudnnRNNDataDescriptor.batchSize");
  }
};

void describe(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int64_t rows,
              int64_t columns) {
  const int dimensions[] = {1, static_cast<int>(rows), static_cast<int>(columns)};
  const int strides[] = {static_cast<int>(rows * columns), static_cast<int>(columns), 1};
  cudnnSetTensorNdDescriptor(descriptor, type, 3, dimensions, strides);
}

}  // namespace

namespace levee::simgpu::stubs {

Cost recurrent_cost(const void* network, const void* sequences) {
  const Network net(network);
  const Sequences data(sequences);
  const auto products = static_cast<double>(net.matrices_before(net.pseudo_layers()));
  const auto positions = static_cast<double>(data.steps * data.batch);
  const Number number = number_of(net.type());
  return {2 * products * positions * number.weight,
          products * number.bytes * static_cast<double>(data.steps)};
}

}  // namespace levee::simgpu::stubs

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                         size_t* weightSpaceSize) {
  SIMGPU_TRACE_CALL("cudnn");
  const Network network(rnnDesc);
  if (Object::from(handle) == nullptr || !network.is_set() || weightSpaceSize == nullptr)
    return CUDNN_STATUS_BAD_PARAM;
  *weightSpaceSize = static_cast<size_t>(network.elements() * network.element_bytes());
  return CUDNN_STATUS_SUCCESS;
}

// Either pair of outputs may be null.
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                      int32_t pseudoLayer, size_t /*weightSpaceSize*/,
                                      const void* weightSpace, int32_t linLayerID,
                                      cudnnTensorDescriptor_t mDesc, void** mAddr,
                                      cudnnTensorDescriptor_t bDesc, void** bAddr) {
  SIMGPU_TRACE_CALL("cudnn");
  const Network network(rnnDesc);
  const int64_t gates = network.gates();
  if (Object::from(handle) == nullptr || pseudoLayer < 0 ||
      pseudoLayer >= network.pseudo_layers() || linLayerID < 0 || linLayerID > 2 * gates) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const auto base = reinterpret_cast<std::uintptr_t>(weightSpace);
  const auto address_of = [&](int64_t element) {
    return reinterpret_cast<void*>(base +
                                   static_cast<std::uintptr_t>(element * network.element_bytes()));
  };

  const bool is_projection = linLayerID == 2 * gates;
  if (mDesc != nullptr && mAddr != nullptr) {
    const int64_t inputs = network.inputs_of(pseudoLayer);
    int64_t element = network.matrices_before(pseudoLayer);
    int64_t rows = network.hidden();
    int64_t columns = inputs;
    if (linLayerID < gates) {
      element += linLayerID * rows * inputs;
    } else {
      columns = network.output();
      element += gates * rows * inputs + (linLayerID - gates) * rows * columns;
    }
    if (is_projection) {
      rows = network.output();
      columns = network.hidden();
    }
    const bool exists = !is_projection || network.has_projection();
    *mAddr = exists ? address_of(element) : nullptr;
    if (exists) describe(mDesc, network.type(), rows, columns);
  }
  if (bDesc != nullptr && bAddr != nullptr) {
    const int64_t per_layer = network.biases() * gates;
    const bool exists = linLayerID < per_layer;
    const int64_t first = network.matrices_before(network.pseudo_layers());
    *bAddr = exists ? address_of(first + (pseudoLayer * per_layer + linLayerID) * network.hidden())
                    : nullptr;
    if (exists) describe(bDesc, network.type(), network.hidden(), 1);
  }
  return CUDNN_STATUS_SUCCESS;
}

// Sizes are bounds that hold what such kernels keep: the gates of every step for the backward pass,
// one step's as scratch.
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                        cudnnForwardMode_t fwdMode, cudnnRNNDataDescriptor_t xDesc,
                                        size_t* workSpaceSize, size_t* reserveSpaceSize) {
  SIMGPU_TRACE_CALL("cudnn");
  const Network network(rnnDesc);
  if (Object::from(handle) == nullptr || !network.is_set()) return CUDNN_STATUS_BAD_PARAM;
  const Sequences data(xDesc);
  const int64_t step = network.pseudo_layers() * (network.gates() + 1) * network.hidden() *
                       data.batch * network.element_bytes();
  if (workSpaceSize != nullptr) *workSpaceSize = static_cast<size_t>(step);
  if (reserveSpaceSize != nullptr) {
    *reserveSpaceSize =
        fwdMode == CUDNN_FWD_MODE_TRAINING ? static_cast<size_t>(step * data.steps) : 0;
  }
  return CUDNN_STATUS_SUCCESS;
}

namespace {

/// A tensor of one vector per step and sequence.
void forget_sequences(const void* descriptor, void* data) {
  const Object* object = Object::from(descriptor);
  if (object == nullptr) return;
  const Sequences shape(descriptor);
  const auto width = object->get<int>("cudnnRNNDataDescriptor.vectorSize");
  const auto type = object->get<cudnnDataType_t>("cudnnRNNDataDescriptor.dataType");
  const auto vectors = static_cast<double>(shape.steps * shape.batch);
  // Packed sequences of different lengths take less than this; what the tensor holds behind them is
  // not ours.
  if (object->get<cudnnRNNDataLayout_t>("cudnnRNNDataDescriptor.layout") ==
      CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED) {
    return;
  }
  forget(data, vectors * width * number_of(type).bytes);
}

}  // namespace

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                              cudnnForwardMode_t /*fwdMode*/, const int32_t* /*devSeqLengths*/,
                              cudnnRNNDataDescriptor_t xDesc, const void* /*x*/,
                              cudnnRNNDataDescriptor_t yDesc, void* y,
                              cudnnTensorDescriptor_t hDesc, const void* /*hx*/, void* hy,
                              cudnnTensorDescriptor_t cDesc, const void* /*cx*/, void* cy,
                              size_t /*weightSpaceSize*/, const void* /*weightSpace*/,
                              size_t /*workSpaceSize*/, void* /*workSpace*/,
                              size_t /*reserveSpaceSize*/, void* /*reserveSpace*/) {
  SIMGPU_TRACE_CALL("cudnn");
  const Object* library = Object::from(handle);
  if (library == nullptr) return CUDNN_STATUS_BAD_PARAM;
  launch(library, "cudnnRNNForward", recurrent_cost(rnnDesc, xDesc));
  forget_sequences(yDesc, y);
  forget_tensor(hDesc, hy);
  forget_tensor(cDesc, cy);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                      const int32_t* /*devSeqLengths*/,
                                      cudnnRNNDataDescriptor_t /*yDesc*/, const void* /*y*/,
                                      const void* /*dy*/, cudnnRNNDataDescriptor_t xDesc, void* dx,
                                      cudnnTensorDescriptor_t hDesc, const void* /*hx*/,
                                      const void* /*dhy*/, void* dhx, cudnnTensorDescriptor_t cDesc,
                                      const void* /*cx*/, const void* /*dcy*/, void* dcx,
                                      size_t /*weightSpaceSize*/, const void* /*weightSpace*/,
                                      size_t /*workSpaceSize*/, void* /*workSpace*/,
                                      size_t /*reserveSpaceSize*/, void* /*reserveSpace*/) {
  SIMGPU_TRACE_CALL("cudnn");
  const Object* library = Object::from(handle);
  if (library == nullptr) return CUDNN_STATUS_BAD_PARAM;
  launch(library, "cudnnRNNBackwardData", recurrent_cost(rnnDesc, xDesc));
  forget_sequences(xDesc, dx);
  forget_tensor(hDesc, dhx);
  forget_tensor(cDesc, dcx);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, cudnnWgradMode_t /*addGrad*/,
    const int32_t* /*devSeqLengths*/, cudnnRNNDataDescriptor_t xDesc, const void* /*x*/,
    cudnnTensorDescriptor_t /*hDesc*/, const void* /*hx*/, cudnnRNNDataDescriptor_t /*yDesc*/,
    const void* /*y*/, size_t weightSpaceSize, void* dweightSpace, size_t /*workSpaceSize*/,
    void* /*workSpace*/, size_t /*reserveSpaceSize*/, void* /*reserveSpace*/) {
  SIMGPU_TRACE_CALL("cudnn");
  const Object* library = Object::from(handle);
  if (library == nullptr) return CUDNN_STATUS_BAD_PARAM;
  launch(library, "cudnnRNNBackwardWeights", recurrent_cost(rnnDesc, xDesc));
  forget(dweightSpace, static_cast<double>(weightSpaceSize));
  return CUDNN_STATUS_SUCCESS;
}

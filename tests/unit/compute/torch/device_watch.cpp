#include "unit/compute/torch/device_watch.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <memory>
#include <tuple>

namespace quern::compute::torch_backend::test {
namespace {

thread_local DeviceWatch* watch = nullptr;

struct Seen {
    bool processor = false;
    bool meta = false;
    bool bf16 = false;

    void see(const at::Tensor& tensor) {
        // A number in a call is a tensor of the processor by the time that its op is dispatched, and goes anywhere.
        if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
        (tensor.is_meta() ? meta : processor) = true;
        bf16 = bf16 || tensor.scalar_type() == at::kBFloat16;
    }
    void see(const c10::IValue& value) {
        if (value.isTensor()) see(value.toTensor());
        if (!value.isTensorList()) return;
        for (const at::Tensor& each : value.toTensorVector()) see(each);
    }
};

// zeros_like(meta tensor, dtype, layout, device = cpu)
bool is_read(const std::string& name, const Seen& seen, c10::ArrayRef<const c10::IValue> inputs) {
    return name == "aten::zeros_like" && seen.meta && inputs.size() > 3 && inputs[3].isDevice() &&
           inputs[3].toDevice().is_cpu();
}

std::unique_ptr<at::ObserverContext> look(const at::RecordFunction& call) {
    if (watch == nullptr) return nullptr;
    Seen seen;
    for (const c10::IValue& input : call.inputs()) seen.see(input);
    const std::string name = call.name();
    if (seen.meta && (name == "aten::mul" || name == "aten::add" || name == "aten::mm" || name == "aten::bmm"))
        watch->has_begun = true;
    if (name == "aten::copy_" && seen.processor && seen.meta) {
        ++watch->uploads;
        if (watch->has_begun) ++watch->late_uploads;
    } else if (seen.processor && seen.meta) {
        watch->mixed.insert(name);
    }
    if (seen.bf16) watch->bf16.insert(name);
    if (seen.meta) ++watch->ops_of_device;
    if (is_read(name, seen, call.inputs())) ++watch->reads;
    return nullptr;
}

// What libtorch 1.13 cannot do on meta in C++, though it can on a graphics processor: the shape of what comes out.
at::Tensor abs_of_meta(const at::Tensor& x) { return at::empty_like(x); }
at::Tensor where_of_meta(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
    TORCH_CHECK(condition.is_meta() && a.is_meta() && b.is_meta() && a.scalar_type() == b.scalar_type(), "where");
    return at::empty(at::infer_size(condition.sizes(), at::infer_size(a.sizes(), b.sizes())), a.options());
}
at::Tensor index_select_of_meta(const at::Tensor& x, std::int64_t axis, const at::Tensor& index) {
    TORCH_CHECK(x.is_meta() && index.is_meta() && index.dim() == 1, "index_select");
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[static_cast<std::size_t>(axis)] = index.size(0);
    return at::empty(sizes, x.options());
}
std::tuple<at::Tensor, at::Tensor> kthvalue_of_meta(const at::Tensor& x, std::int64_t /*k*/, std::int64_t axis,
                                                    bool keeps_axis) {
    TORCH_CHECK(x.is_meta() && keeps_axis, "kthvalue");
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[static_cast<std::size_t>(axis)] = 1;
    return {at::empty(sizes, x.options()), at::empty(sizes, x.options().dtype(at::kLong))};
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
    library.impl("abs", abs_of_meta);
    library.impl("where.self", where_of_meta);
    library.impl("index_select", index_select_of_meta);
    library.impl("kthvalue", kthvalue_of_meta);
}

}  // namespace

DeviceWatch::DeviceWatch()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(look).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
    watch = this;
}
DeviceWatch::~DeviceWatch() {
    watch = nullptr;
    at::removeCallback(handle_);
}

}  // namespace quern::compute::torch_backend::test

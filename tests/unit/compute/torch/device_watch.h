// What libtorch's ops do with devices, op by op as its dispatcher calls them: torch's meta device refuses operands of
// two devices in some ops alone (not in mm, cat or index_add), and a graphics processor in nearly all. Test code; of
// the thread that makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace quern::compute::torch_backend::test {

class DeviceWatch {
public:
    DeviceWatch();
    ~DeviceWatch();
    DeviceWatch(const DeviceWatch&) = delete;
    DeviceWatch& operator=(const DeviceWatch&) = delete;

    std::set<std::string> mixed;    // ops that had operands of two devices, copies aside: "aten::mm"
    std::set<std::string> bf16;     // ops that had an operand in bf16
    std::size_t uploads = 0;        // copies from the processor to meta
    std::size_t late_uploads = 0;   // of these, behind a sum or a product on meta
    std::size_t reads = 0;          // values of meta that the processor asked for (to_processor)
    std::size_t ops_of_device = 0;  // with an operand on meta

    bool has_begun = false;

private:
    std::uint64_t handle_;
};

}  // namespace quern::compute::torch_backend::test

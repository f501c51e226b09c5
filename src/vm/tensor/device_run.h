// Steps of a program on a device of vm/tensor/cuda, by the plan that the processor's executor has too: the state, what
// nodes compute and the constants lie in the device's memory; windows of data are read here. Internal to vm/tensor:
// used by the executor, one thread at a time. Bits do not depend on the device.
#pragma once

#include <functional>
#include <memory>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "vm/tensor/cuda/device.h"
#include "vm/tensor/cuda/launch_work.h"
#include "vm/tensor/data.h"
#include "vm/tensor/executor.h"
#include "vm/tensor/plan.h"

namespace quern::vm::tensor {

class DeviceRun {
public:
    // All must outlive it; `pool` and `cancellation` may be null. `plan` is one of the mode `step`. The limits decide
    // how soon a cancellation is seen, and what is left to the processor.
    DeviceRun(const Program& program, const ExecutionPlan& plan, cuda::Device& device, ThreadPool* pool,
              const Cancellation* cancellation, const cuda::LaunchLimits& limits = {});
    ~DeviceRun();
    DeviceRun(const DeviceRun&) = delete;
    DeviceRun& operator=(const DeviceRun&) = delete;

    // What it takes of the device's memory.
    [[nodiscard]] std::uint64_t bytes() const;
    // What has to be free beside that for the runtime: allocations rounded up, the kernels' code, and what threads keep
    // of a group's values, of which a card takes as much as all its threads may need.
    [[nodiscard]] static std::uint64_t spare_bytes(const cuda::Device& device);

    // Errors of all, which are this process's (faults): cuda.too_little_memory, cuda.failed, cuda.unsuitable (a launch
    // would take long that no cancellation ends). Afterwards the device holds no state any more, and reads or writes
    // none of the caller's memory.
    [[nodiscard]] Status load(const State& state);
    // The loaded state := the state after the step. Cancellation is asked for between two launches, of which few wait
    // in the queue. False: cancelled, or a window of data that the source has not; the loaded state is of no more use.
    [[nodiscard]] Expected<bool> step(const DataSource& data, const Tensor& seed);
    // state, which was loaded before the last steps, := the state after them; `before_writing(slot)`, unless null,
    // before a word of that slot is written. Slots that no step changes stay as they are.
    [[nodiscard]] Status store(State& state, const std::function<void(std::size_t slot)>& before_writing);
    // As slot_roots() of the loaded state; its tiles are hashed on the device. Once the cancellation was requested the
    // result is of no use.
    [[nodiscard]] Expected<std::vector<Hash32>> slot_roots();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quern::vm::tensor

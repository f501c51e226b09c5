// Measures what profile.h says, by steps of small programs of one op each through the executor, as training runs them:
// about two seconds. Whoever runs it should leave the machine alone meanwhile. Uses the threads of the given pool.
#pragma once

#include <memory>

#include "base/cancellation.h"
#include "compute/cost/profile.h"

namespace quern::compute::cost {

// One that is run pass by pass, for who measures something else in turn with it. Each program's shortest time counts:
// what disturbs makes times longer, and a machine that others use, too, is slower for a while and quick again. One
// thread.
class SelfBenchmark {
public:
    // Errors: those of the builder, of which there are none.
    [[nodiscard]] static Expected<SelfBenchmark> make(ProfileKey key);
    SelfBenchmark(SelfBenchmark&&) noexcept;
    SelfBenchmark& operator=(SelfBenchmark&&) = delete;
    ~SelfBenchmark();

    // About a second. Errors: profile.cancelled; of the backend `cuda` vm/tensor/executor.h's cuda.*, where steps did
    // not run on the card: their times are the processor's.
    [[nodiscard]] Status pass(const Cancellation* cancellation = nullptr);
    [[nodiscard]] Profile profile() const;  // after a pass at least

private:
    SelfBenchmark();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Three passes. Errors: those of above.
[[nodiscard]] Expected<Profile> measure_profile(ProfileKey key, const Cancellation* cancellation = nullptr);

// The saved profile of the key, else one that is measured now and saved; one that cannot be saved is given all the
// same. Where the key's card runs no steps, which is logged by name, the one of the processor's best backend, which
// runs them then. Errors: profile.cancelled, those of the builder, and fs.* of a file that is there and cannot be read.
[[nodiscard]] Expected<Profile> load_or_measure(const std::string& path, const ProfileKey& key,
                                                const Cancellation* cancellation = nullptr);

}  // namespace quern::compute::cost

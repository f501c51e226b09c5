// Limits and measures of tolerance mode as people read them. Used by src/bin only.
#pragma once

#include <cmath>

#include "base/fs.h"
#include "base/json.h"
#include "compute/tolerance/limits.h"
#include "crypto/content_id.h"

namespace quern {

// The file's bytes. Errors: tolerance.bad_limits (a larger file), fs.*.
inline Expected<Bytes> read_limits(const std::string& path) {
    QUERN_TRY(const std::uint64_t bytes, fs::file_size(path));
    if (bytes > compute::tolerance::kLimitBytes)
        return fail("tolerance.bad_limits", path + ": " + std::to_string(bytes) + " bytes, not " +
                                                std::to_string(compute::tolerance::kLimitBytes));
    return fs::read_file(path, compute::tolerance::kLimitBytes);
}

// A number, or null of what JSON has no number for.
inline json::Value number_of(std::uint32_t word) {
    const auto number = static_cast<double>(__builtin_bit_cast(float, word));
    return std::isfinite(number) ? json::Value(number) : json::Value();
}

inline json::Value json_of(const compute::tolerance::Measured& measured) {
    json::Value told = json::Value::object();
    for (std::size_t m = 0; m < compute::tolerance::kMeasures; ++m)
        told.set(std::string(compute::tolerance::kMeasureNames[m]), number_of(measured.words[m]));
    return told;
}

// With the root of the data tensor that they are.
inline json::Value json_of(const compute::tolerance::Limits& limits) {
    json::Value told = json::Value::object(
        {{"data_root", to_hex0x(crypto::content_id_of(compute::tolerance::encode_limits(limits)))}});
    told.set("l2", number_of(limits.l2));
    told.set("linf", number_of(limits.linf));
    told.set("moments", number_of(limits.moments));
    told.set("rest", number_of(limits.rest));
    told.set("loose", number_of(limits.loose));
    told.set("least_movement", number_of(limits.least_movement));
    told.set("most_movement", number_of(limits.most_movement));
    return told;
}

}  // namespace quern

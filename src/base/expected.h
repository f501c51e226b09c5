// Errors as values. Every function below the edge that can fail on its input returns Expected<T>.
// An Error has a stable dotted name ("rlp.non_canonical_length"), which tests and callers match on, and a detail for
// people. Thread-safe: plain values.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace quern {
inline namespace base {

struct Error {
    std::string_view name;  // a string literal: "area.what_is_wrong"; never built at run time
    std::string detail;     // for people; may be empty

    [[nodiscard]] std::string to_string() const {
        return detail.empty() ? std::string(name) : std::string(name) + ": " + detail;
    }
};

template <class T>
using Expected = tl::expected<T, Error>;
using Status = Expected<void>;

// `name` must be a string literal (its storage is not copied).
[[nodiscard]] inline tl::unexpected<Error> fail(std::string_view name, std::string detail = {}) {
    return tl::unexpected<Error>(Error{name, std::move(detail)});
}
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace base
}  // namespace quern

#define QUERN_CONCAT_INNER(a, b) a##b
#define QUERN_CONCAT(a, b) QUERN_CONCAT_INNER(a, b)

// QUERN_TRY(declaration, expression): evaluates an Expected; returns its error from the enclosing function, or
// initialises the declaration with its value: QUERN_TRY(auto block, decode_block(bytes));
#define QUERN_TRY(declaration, expression)                                           \
    auto QUERN_CONCAT(quern_try_, __LINE__) = (expression);                          \
    if (!QUERN_CONCAT(quern_try_, __LINE__))                                         \
        return ::quern::fail(std::move(QUERN_CONCAT(quern_try_, __LINE__)).error()); \
    declaration = std::move(*QUERN_CONCAT(quern_try_, __LINE__))

// The same for a Status, or an Expected whose value is not needed.
#define QUERN_CHECK(expression)                                                               \
    do {                                                                                      \
        auto quern_check_status = (expression);                                               \
        if (!quern_check_status) return ::quern::fail(std::move(quern_check_status).error()); \
    } while (false)

// Errors as values. Every function below the edge that can fail on its input returns Expected<T>.
// An Error has a kind, which alone decides what follows (who is to blame, whether to try again), a stable dotted name
// ("rlp.non_canonical_length"), which tests, receipts and clients show, and a detail for people. No code of ours
// branches on a name that another folder made up. Thread-safe: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace quern {
inline namespace base {

enum class ErrorKind : std::uint8_t {
    input,        // what was given is wrong: whoever gave it is to blame, and the same again fails again
    local_fault,  // this process failed (disk, memory, a corrupt store): nothing was learnt about the input
    busy,         // not now: a limit is reached or something is on its way; the same may succeed later
};

struct Error {
    std::string_view name;  // a string literal: "area.what_is_wrong"; never built at run time
    std::string detail;     // for people; may be empty
    ErrorKind kind = ErrorKind::input;

    [[nodiscard]] bool is_local_fault() const { return kind == ErrorKind::local_fault; }
    [[nodiscard]] bool is_busy() const { return kind == ErrorKind::busy; }

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
[[nodiscard]] inline tl::unexpected<Error> fault(std::string_view name, std::string detail = {}) {
    return tl::unexpected<Error>(Error{name, std::move(detail), ErrorKind::local_fault});
}
[[nodiscard]] inline tl::unexpected<Error> busy(std::string_view name, std::string detail = {}) {
    return tl::unexpected<Error>(Error{name, std::move(detail), ErrorKind::busy});
}
// The same error with another detail: "field price: " + what was wrong with it.
[[nodiscard]] inline tl::unexpected<Error> detailed(const Error& error, std::string detail) {
    return tl::unexpected<Error>(Error{error.name, std::move(detail), error.kind});
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

// Byte strings and fixed-size byte arrays, with hexadecimal text. Plain values; thread-safe.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"

namespace quern {
inline namespace base {

using Bytes = std::vector<std::uint8_t>;
using BytesView = std::span<const std::uint8_t>;

// N bytes with value semantics and lexicographic order. Zero-initialised.
template <std::size_t N>
struct FixedBytes {
    static constexpr std::size_t kSize = N;
    std::array<std::uint8_t, N> data{};

    constexpr auto operator<=>(const FixedBytes&) const = default;
    [[nodiscard]] constexpr bool is_zero() const {
        for (auto byte : data)
            if (byte != 0) return false;
        return true;
    }
    [[nodiscard]] BytesView view() const { return BytesView(data); }
    operator BytesView() const { return BytesView(data); }  // NOLINT: a fixed array is a view of its bytes

    // The caller guarantees source.size() == N; for outside input use from_view.
    [[nodiscard]] static FixedBytes copy_of(BytesView source) {
        FixedBytes result;
        std::memcpy(result.data.data(), source.data(), source.size() < N ? source.size() : N);
        return result;
    }
    [[nodiscard]] static Expected<FixedBytes> from_view(BytesView source) {
        if (source.size() != N)
            return fail("bytes.wrong_length",
                        "expected " + std::to_string(N) + " bytes, got " + std::to_string(source.size()));
        return copy_of(source);
    }
};

using Hash32 = FixedBytes<32>;
using Bytes20 = FixedBytes<20>;

[[nodiscard]] inline BytesView as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
[[nodiscard]] inline std::string_view as_text(BytesView bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
[[nodiscard]] inline Bytes to_bytes(BytesView view) { return {view.begin(), view.end()}; }
inline void append(Bytes& target, BytesView more) { target.insert(target.end(), more.begin(), more.end()); }
[[nodiscard]] inline bool equal(BytesView a, BytesView b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Lexicographic order for ordered containers keyed by Bytes; looks up views without copying them.
struct BytesLess {
    using is_transparent = void;
    bool operator()(BytesView a, BytesView b) const { return as_text(a) < as_text(b); }
};

// Lower-case hexadecimal without prefix / with "0x".
[[nodiscard]] std::string to_hex(BytesView bytes);
[[nodiscard]] std::string to_hex0x(BytesView bytes);
// Accepts an optional "0x" prefix, upper and lower case; errors: hex.odd_length, hex.bad_digit.
[[nodiscard]] Expected<Bytes> from_hex(std::string_view text);
// As from_hex, and exactly N bytes; error: bytes.wrong_length.
template <std::size_t N>
[[nodiscard]] Expected<FixedBytes<N>> fixed_from_hex(std::string_view text) {
    if (text.size() > 2 * N + 2) return fail("bytes.wrong_length", "expected " + std::to_string(N) + " bytes of hex");
    QUERN_TRY(const Bytes bytes, from_hex(text));
    return FixedBytes<N>::from_view(bytes);
}

}  // namespace base
}  // namespace quern

// Real objects that seeds are made of, the same in every run.
#pragma once

#include "base/rng.h"
#include "chain/types/fields.h"
#include "chain/types/native_kinds.h"
#include "chain/types/receipt.h"

namespace quern::fuzz {

[[nodiscard]] crypto::PrivateKey sample_key(std::uint8_t number);

// Every type and shape: legacy (protected, unprotected, creation), access list, dynamic fee, set code, native.
struct NamedTransaction {
    std::string name;
    chain::types::Transaction tx;
};
[[nodiscard]] std::vector<NamedTransaction> sample_transactions();
[[nodiscard]] chain::types::Block sample_block();
[[nodiscard]] chain::types::Receipt sample_receipt(bool success);

// Fills every field of a record with something.
struct FillVisitor {
    Rng& rng;
    std::size_t items = 2;  // of vectors
    template <class T>
    void operator()(const char*, T& value) {
        fill(value);
    }
    template <class T>
    void fill(T& value) {
        if constexpr (std::is_same_v<T, bool>) {
            value = rng.below(2) == 1;
        } else if constexpr (std::is_enum_v<T>) {
            value = static_cast<T>(1);
        } else if constexpr (std::unsigned_integral<T>) {
            value = static_cast<T>(rng.u64() >> rng.below(64));
        } else if constexpr (std::is_same_v<T, Uint256>) {
            value = Uint256(0, 0, rng.below(2) * rng.u64(), rng.u64());
        } else if constexpr (chain::types::FixedBytesField<T>) {
            rng.fill(value.data);
        } else if constexpr (std::is_same_v<T, Bytes>) {
            value.resize(rng.below(70));
            rng.fill(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
            value = "text " + std::to_string(rng.below(1000));
        } else if constexpr (chain::types::RecordVector<T>) {
            value.resize(items);
            for (auto& item : value) fill(item);
        } else {
            value.fields(*this);
        }
    }
};
template <chain::types::Record T>
[[nodiscard]] T filled_record(std::uint64_t seed, std::size_t items = 2) {
    SeededRng rng(seed);
    T record{};
    FillVisitor visitor{rng, items};
    record.fields(visitor);
    return record;
}

}  // namespace quern::fuzz

// One item of an encoding replaced by another, at any depth: for tests that a decoder refuses a field by its name.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "base/rlp.h"

namespace quern {

// `path` are indices from the outermost list inwards; the last one's item becomes `replacement`, itself encoded.
inline Bytes with_item(BytesView list, std::vector<std::size_t> path, BytesView replacement) {
    auto items = rlp::decode_list(list);
    EXPECT_TRUE(items);
    rlp::Writer out;
    out.begin_list();
    std::size_t index = 0;
    for (; items && !items->at_end(); ++index) {
        const auto item = items->next();
        if (!item) break;
        if (index != path.front())
            out.raw(item->whole);
        else if (path.size() == 1)
            out.raw(replacement);
        else
            out.raw(with_item(item->whole, {path.begin() + 1, path.end()}, replacement));
    }
    EXPECT_LT(path.front(), index);
    out.end_list();
    return std::move(out).finish();
}

inline Bytes rlp_integer(const Uint256& value) {
    rlp::Writer out;
    out.integer(value);
    return std::move(out).finish();
}

inline Bytes rlp_bytes(BytesView value) {
    rlp::Writer out;
    out.bytes(value);
    return std::move(out).finish();
}

// A list of so many strings of zeros.
inline Bytes rlp_zeros(std::size_t count, std::size_t size) {
    rlp::Writer out;
    out.begin_list();
    for (std::size_t i = 0; i < count; ++i) out.bytes(Bytes(size));
    out.end_list();
    return std::move(out).finish();
}

}  // namespace quern

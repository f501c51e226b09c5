#include "base/rlp.h"
#include "chain/statetest/cases.h"

namespace quern::chain::statetest {
namespace {

// "in" is a string, a number, "#" and a decimal number, or a list of these.
Status write_item(rlp::Writer& out, const json::Value& value) {
    if (value.is_array()) {
        out.begin_list();
        for (const auto& item : value.items()) QUERN_CHECK(write_item(out, item));
        out.end_list();
        return {};
    }
    if (value.is_integer()) {
        QUERN_TRY(const std::uint64_t number, value.as_u64());
        out.integer(number);
        return {};
    }
    QUERN_TRY(const std::string_view text, value.as_string());
    if (!text.starts_with('#')) {
        out.bytes(as_bytes(text));
        return {};
    }
    const auto number = Uint256::from_decimal(text.substr(1));
    if (number) {
        out.integer(*number);
        return {};
    }
    // The one number beyond 256 bits in the set is 2^256; RLP itself has no bound.
    if (text != "#115792089237316195423570985008687907853269984665640564039457584007913129639936")
        return fail("statetest.number_too_large", std::string(text));
    Bytes big_endian(33, 0);
    big_endian[0] = 1;
    out.bytes(big_endian);
    return {};
}

// Decodes everything and builds it again.
Status copy_item(rlp::Reader& in, rlp::Writer& out) {
    QUERN_TRY(const rlp::Item item, in.next());
    if (!item.is_list) {
        out.bytes(item.payload);
        return {};
    }
    out.begin_list();
    rlp::Reader items(item.payload);
    while (!items.at_end()) QUERN_CHECK(copy_item(items, out));
    out.end_list();
    return {};
}

}  // namespace

std::optional<CaseResult> run_rlp_case(std::string_view, const json::Value& test) {
    const json::Value* in = test.find("in");
    const json::Value* out = test.find("out");
    if (in == nullptr || out == nullptr || test.size() != 2 || !out->is_string()) return std::nullopt;
    const auto encoded = from_hex(*out->as_string());
    if (!encoded) return failed("out: " + encoded.error().to_string());
    const Status valid = rlp::validate(*encoded);
    if (*in == json::Value("INVALID")) return valid ? failed("accepted") : passed();
    if (!valid) return failed(valid.error().to_string());
    rlp::Writer copy;
    rlp::Reader reader(*encoded);
    if (const auto copied = copy_item(reader, copy); !copied) return failed(copied.error().to_string());
    if (std::move(copy).finish() != *encoded) return failed("decoding and encoding gives other bytes");
    if (*in == json::Value("VALID")) return passed();
    rlp::Writer writer;
    if (const auto written = write_item(writer, *in); !written) return failed(written.error().to_string());
    const Bytes ours = std::move(writer).finish();
    return ours == *encoded ? passed() : failed("encoded as " + to_hex0x(ours));
}

}  // namespace quern::chain::statetest

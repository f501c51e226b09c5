#include "chain/statetest/genesis.h"

#include <array>

#include "chain/statetest/pre_state.h"

namespace quern::chain::statetest {
namespace {

struct Field {
    std::string_view name;
    bool is_number;
};
constexpr std::array<Field, 21> kFields{{{"parentHash", false},
                                         {"uncleHash", false},
                                         {"coinbase", false},
                                         {"stateRoot", false},
                                         {"transactionsTrie", false},
                                         {"receiptTrie", false},
                                         {"bloom", false},
                                         {"difficulty", true},
                                         {"number", true},
                                         {"gasLimit", true},
                                         {"gasUsed", true},
                                         {"timestamp", true},
                                         {"extraData", false},
                                         {"mixHash", false},
                                         {"nonce", false},
                                         {"baseFeePerGas", true},
                                         {"withdrawalsRoot", false},
                                         {"blobGasUsed", true},
                                         {"excessBlobGas", true},
                                         {"parentBeaconBlockRoot", false},
                                         {"requestsHash", false}}};

// As a block would have it; fields that are missing at the end are those of later forks.
Expected<Bytes> encode(const json::Value& fields) {
    rlp::Writer out;
    out.begin_list();
    for (const Field& field : kFields) {
        const json::Value* value = fields.find(field.name);
        if (value == nullptr) continue;
        if (field.is_number) {
            QUERN_TRY(const Uint256 number, parse_number(*value));
            out.integer(number);
        } else {
            QUERN_TRY(const std::string_view text, value->as_string());
            QUERN_TRY(const Bytes bytes, from_hex(text));
            out.bytes(bytes);
        }
    }
    out.end_list();
    return std::move(out).finish();
}

Expected<ethereum::Header> read(const json::Value& test, const json::Value& fields) {
    if (const auto text = test.get_string("genesisRLP")) {
        QUERN_TRY(const Bytes bytes, from_hex(*text));
        QUERN_TRY(ethereum::Block block, ethereum::decode_block(bytes));
        return std::move(block.header);
    }
    QUERN_TRY(const Bytes bytes, encode(fields));
    rlp::Reader in(bytes);
    return ethereum::read_header(in);
}

}  // namespace

Expected<ethereum::Header> parse_genesis(const json::Value& test) {
    QUERN_TRY(const auto* fields, test.get_object("genesisBlockHeader"));
    QUERN_TRY(ethereum::Header header, read(test, *fields));
    QUERN_TRY(const auto* hash_field, fields->get("hash"));
    QUERN_TRY(const Hash32 hash, parse_fixed<Hash32::kSize>(*hash_field));
    if (header.hash != hash) return fail("statetest.bad_genesis", "its hash is " + to_hex0x(header.hash));
    return header;
}

}  // namespace quern::chain::statetest

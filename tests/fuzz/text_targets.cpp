// JSON and what is read from it, and short texts: numbers, hex, addresses, HTTP ranges.
#include "base/json.h"
#include "chain/exec/genesis.h"
#include "compute/program/arch_json.h"
#include "compute/transfer/source_uri.h"
#include "crypto/keystore.h"
#include "fuzz/samples.h"
#include "fuzz/target.h"
#include "rpc/dispatcher.h"
#include "rpc/http_range.h"

namespace quern::fuzz {
namespace {

Seed text_seed(std::string name, std::string_view text) { return {std::move(name), to_bytes(as_bytes(text))}; }

// --- JSON ------------------------------------------------------------------------------------------------------------
bool run_json(BytesView input) {
    const auto value = json::parse(as_text(input), {.max_bytes = 1 << 16, .max_depth = 40});
    if (!value) return false;
    const std::string text = value->dump();
    const auto again = json::parse(text);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(*again == *value);
    QUERN_PROPERTY(again->dump() == text);
    const auto pretty = json::parse(value->dump_pretty());
    QUERN_ACCEPTED(pretty);
    QUERN_PROPERTY(*pretty == *value);
    return true;
}

std::vector<Seed> seeds_json() {
    return {text_seed("object", R"({"a":1,"b":[true,false,null],"c":{"d":"e","f":-2},"g":18446744073709551615})"),
            text_seed("strings", R"(["", "\u00e9\n\t\"\\\/", "\ud83d\ude00", "plain", "é"])"),
            text_seed("numbers", "[0,-0,1.5,-2.25e-7,1e308,9007199254740993,-9223372036854775808]"),
            text_seed("deep", "[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]"), text_seed("scalar", " \"text\" ")};
}

// --- JSON-RPC --------------------------------------------------------------------------------------------------------
// A method for each kind of parameter, which reads its arguments the way real methods do.
rpc::Registry make_echo_registry() {
    using rpc::Kind;
    rpc::Registry registry;
    const auto add = [&](Kind kind, std::string_view name, rpc::Handler handler, rpc::Access access) {
        rpc::Method method;
        method.name = name;
        method.summary = "Returns its argument as it was read.";
        method.parameters = {{"value", kind, true, "what to return"}, {"more", kind, false, "not used"}};
        method.result = {"any", "the value"};
        method.handler = std::move(handler);
        method.access = access;
        QUERN_ACCEPTED(registry.add(std::move(method)));
    };
    const auto open = rpc::Access::open;
    add(
        Kind::quantity, "q", [](const rpc::Call& c) { return rpc::Result(rpc::quantity(c.quantity(0))); }, open);
    add(
        Kind::number, "n", [](const rpc::Call& c) { return rpc::Result(c.number(0) + c.number_or(1, 5)); }, open);
    add(
        Kind::hash, "h", [](const rpc::Call& c) { return rpc::Result(rpc::hex(c.hash(0))); }, open);
    add(
        Kind::address, "a", [](const rpc::Call& c) { return rpc::Result(rpc::hex(c.address(0))); }, open);
    add(
        Kind::data, "d", [](const rpc::Call& c) { return rpc::Result(rpc::hex(c.data(0))); }, open);
    add(
        Kind::block, "b",
        [](const rpc::Call& c) {
            (void)c.block(0);
            (void)c.block(1);
            return rpc::Result(true);
        },
        open);
    add(
        Kind::boolean, "t", [](const rpc::Call& c) { return rpc::Result(c.boolean_or(0, false)); }, open);
    add(
        Kind::string, "s", [](const rpc::Call& c) { return rpc::Result(c.text(0)); }, open);
    add(
        Kind::object, "o", [](const rpc::Call& c) { return rpc::Result(c.value(0)); }, open);
    add(
        Kind::array, "l", [](const rpc::Call& c) { return rpc::Result(c.value(0)); }, open);
    add(
        Kind::any, "x", [](const rpc::Call& c) { return rpc::Result(c.value(0)); }, rpc::Access::cookie);
    return registry;
}

void check_response(const json::Value& response) {
    const json::Value* version = response.find("jsonrpc");
    QUERN_PROPERTY(version != nullptr && *version == json::Value("2.0"));
    const json::Value* id = response.find("id");
    QUERN_PROPERTY(id != nullptr && (id->is_null() || id->is_string() || id->is_number()));
    const json::Value* error = response.find("error");
    QUERN_PROPERTY((error == nullptr) != (response.find("result") == nullptr));
    if (error != nullptr) {
        QUERN_ACCEPTED(error->get_i64("code"));
        QUERN_ACCEPTED(error->get_string("message"));
    }
}

bool run_rpc(BytesView input) {
    static const rpc::Registry registry = make_echo_registry();
    static const rpc::Dispatcher dispatcher(
        registry, {.max_request_bytes = 1 << 16, .max_depth = 32, .max_batch = 20, .max_batch_response_bytes = 2000});
    bool answered = false;
    for (const bool authenticated : {false, true}) {
        const auto text = dispatcher.handle(as_text(input), {{authenticated, nullptr}, nullptr, nullptr});
        if (!text) continue;
        const auto response = json::parse(*text);
        QUERN_ACCEPTED(response);
        if (response->is_array()) QUERN_PROPERTY(response->size() > 0);
        if (!response->is_array()) check_response(*response);
        for (const json::Value& item : response->items()) check_response(item);
        if (response->find("result") != nullptr || response->is_array()) answered = true;
    }
    return answered;
}

std::vector<Seed> seeds_rpc() {
    return {text_seed("quantity", R"({"jsonrpc":"2.0","id":1,"method":"q","params":["0x1f"]})"),
            text_seed("number", R"({"jsonrpc":"2.0","id":"a","method":"n","params":{"value":7,"more":"0x2"}})"),
            text_seed("hash", R"({"jsonrpc":"2.0","id":2,"method":"h","params":[)"
                              R"("0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"]})"),
            text_seed("address", R"({"jsonrpc":"2.0","id":2,"method":"a","params":[)"
                                 R"("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"]})"),
            text_seed("data", R"({"jsonrpc":"2.0","id":2,"method":"d","params":["0x00ff"]})"),
            text_seed("block", R"({"jsonrpc":"2.0","id":2,"method":"b","params":["latest",{"blockNumber":"0x10"}]})"),
            text_seed("batch", R"([{"jsonrpc":"2.0","id":1,"method":"t","params":[true]},)"
                               R"({"jsonrpc":"2.0","method":"s","params":["no answer"]},)"
                               R"({"jsonrpc":"2.0","id":null,"method":"none"},{"jsonrpc":"2.0","id":4,"method":"o",)"
                               R"("params":[{}]},3])"),
            text_seed("cookie", R"({"jsonrpc":"2.0","id":1,"method":"x","params":[[1,{"k":[]}]]})"),
            text_seed("array", R"({"jsonrpc":"2.0","id":1,"method":"l","params":[["a"],null]})")};
}

// --- Genesis ---------------------------------------------------------------------------------------------------------
bool run_genesis(BytesView input) {
    const auto genesis = chain::exec::parse_genesis(as_text(input));
    if (!genesis) return false;
    QUERN_ACCEPTED(chain::exec::check_genesis(*genesis));
    const std::string text = chain::exec::to_json(*genesis).dump();
    const auto again = chain::exec::parse_genesis(text);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(chain::exec::to_json(*again).dump() == text);
    return true;
}

std::vector<Seed> seeds_genesis() {
    chain::exec::Genesis genesis;
    genesis.timestamp_ms = 1'700'000'000'000;
    genesis.params.market.dispute_cost = 1'000'000'000'000'000;
    genesis.params.market.storage_deposit_per_byte = 1'000;
    genesis.allocations.push_back({crypto::address20(sample_key(1)), Uint256(0, 0, 5, 7)});
    genesis.validators.push_back({to_bytes(crypto::derive_public(sample_key(1)).bytes.view()),
                                  Uint256(1000) * Uint256(1'000'000'000'000'000'000ULL)});
    genesis.bonds.push_back(
        {crypto::address20(sample_key(2)), chain::types::Role::verifier, Uint256(77) * chain::params::kGrainsPerQrn});
    std::string minimal = R"({"format":"quern-genesis-1","network":"devnet","chain_id":7878,)"
                          R"("timestamp_ms":1700000000000,"allocations":[],"validators":[{"public_key":")" +
                          to_hex0x(crypto::derive_public(sample_key(1)).bytes) +
                          R"(","stake":"1000000000000000000"}],"bonds":[]})";
    return {text_seed("full", chain::exec::to_json(genesis).dump()), text_seed("minimal", minimal)};
}

// --- Architecture ----------------------------------------------------------------------------------------------------
bool run_architecture(BytesView input) {
    const auto architecture = compute::program::parse_architecture(as_text(input));
    if (!architecture) return false;
    QUERN_ACCEPTED(compute::program::check_architecture(*architecture));
    // What is taken can be compiled; large models take too long to do it here.
    if (architecture->is_transformer() ? architecture->transformer().layers > 2 : input.size() > 2'000) return true;
    const auto built = compute::program::build_training_programs(*architecture);
    if (!built) {
        QUERN_PROPERTY(!built.error().name.empty());
        return true;
    }
    for (const auto& each : built->programs) QUERN_ACCEPTED(vm::tensor::validate(each.program));
    return true;
}

std::vector<Seed> seeds_architecture() {
    return {
        text_seed("adamw",
                  R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":8,)"
                  R"("heads":2,"context":4,"mlp_ratio":2,"vocab":9},"data":{"dtype":"u8","elements":21},"batch":2,)"
                  R"("optimizer":{"type":"adamw","lr":3e-3,"betas":[0.9,0.95],"eps":1e-8,)"
                  R"("weight_decay":0.1,"warmup":20,"total_steps":300,"final_lr":0.1,"grad_clip":1}})"),
        text_seed("layers",
                  R"({"format":"quern-arch-1","model":{"type":"layers","input":{"height":4,"width":4,"channels":1},)"
                  R"("layers":[{"type":"conv2d","channels":2,"kernel":[3,1],"padding":1,"groups":1},)"
                  R"({"type":"residual","inner":[{"type":"batch_norm"}]},{"type":"max_pool2d","kernel":2},)"
                  R"({"type":"flatten"},{"type":"dropout","rate":0.5},{"type":"linear","size":2}],"outputs":2,)"
                  R"("loss":"cross_entropy"},"data":[{"dtype":"u8","elements":64},{"dtype":"u8","elements":4}],)"
                  R"("batch":2,"accumulate":2,"optimizer":{"type":"adamw","lr":1e-3}})"),
        text_seed("sgd",
                  R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":4,)"
                  R"("heads":1,"context":3,"mlp_ratio":1,"vocab":2},"data":{"dtype":"u16","elements":4},"batch":1,)"
                  R"("optimizer":{"type":"sgd","lr":0.1}})"),
        text_seed("rotary", R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":8,)"
                            R"("heads":4,"context":4,"mlp_ratio":1,"vocab":9,"positions":"rotary","norm":"rms",)"
                            R"("activation":"swiglu","kv_heads":2,"dropout":0.1},"data":{"dtype":"u8","elements":21},)"
                            R"("batch":2,"optimizer":{"type":"sgd","lr":0.1}})"),
        text_seed("experts", R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":4,)"
                             R"("heads":1,"context":5,"mlp_ratio":1,"vocab":4,"experts":{"count":3,"top":2,)"
                             R"("capacity_factor":0.75,"balance":0.1}},"data":{"dtype":"u8","elements":11},"batch":1,)"
                             R"("optimizer":{"type":"sgd","lr":0.1}})"),
        text_seed("momentum",
                  R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":2,"d_model":4,)"
                  R"("heads":4,"context":2,"mlp_ratio":1,"vocab":3},"data":{"dtype":"i32","elements":7},"batch":1,)"
                  R"("optimizer":{"type":"momentum","lr":1,"momentum":0.5}})"),
        text_seed("bytes", R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":4,)"
                           R"("heads":2,"context":3,"mlp_ratio":1,"vocab":5,"precision":"int8","head_precision":"f32",)"
                           R"("attention_precision":"int8"},"data":{"dtype":"u8","elements":9},"batch":1,)"
                           R"("optimizer":{"type":"sgd","lr":0.1}})"),
        text_seed("bytes_of_layers",
                  R"({"format":"quern-arch-1","model":{"type":"layers","input":{"features":8},"layers":[)"
                  R"({"type":"linear","size":4},{"type":"linear","size":2,"precision":"f32"}],"outputs":2,)"
                  R"("precision":"int8"},"data":[{"dtype":"f32","elements":64},{"dtype":"u8","elements":8}],"batch":2,)"
                  R"("optimizer":{"type":"sgd","lr":0.1}})"),
        text_seed("bytes_of_experts",
                  R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":4,"heads":1,)"
                  R"("context":5,"mlp_ratio":1,"vocab":4,"experts":{"count":2},"precision":"int8","layer_precision":)"
                  R"({"h.0.experts":"int8","h.0.attn.w_o":"f32"}},"data":{"dtype":"u8","elements":11},"batch":1,)"
                  R"("optimizer":{"type":"sgd","lr":0.1}})")};
}

// --- Keystore --------------------------------------------------------------------------------------------------------
// Files that ask for real work are left alone: their costs are what the limits are for, not the parser.
bool is_cheap(const json::Value& file) {
    const json::Value* crypto = file.find(file.find("crypto") != nullptr ? "crypto" : "Crypto");
    const json::Value* cost = crypto != nullptr ? crypto->find("kdfparams") : nullptr;
    if (cost == nullptr) return true;
    std::uint64_t work = 1;
    for (const char* name : {"n", "r", "p", "c"}) {
        const auto factor = cost->get_u64(name);
        if (!factor) continue;
        if (*factor > 5'000) return false;
        work *= std::max<std::uint64_t>(*factor, 1);
    }
    return work <= 5'000;
}

bool run_keystore(BytesView input) {
    constexpr std::string_view kPassword = "password";
    const auto file = json::parse(as_text(input), {.max_bytes = crypto::kMaxKeystoreBytes, .max_depth = 8});
    if (!file || !is_cheap(*file)) {
        if (!file) QUERN_PROPERTY(!crypto::decrypt_key(as_text(input), kPassword));
        return false;
    }
    const auto key = crypto::decrypt_key(*file, kPassword);
    QUERN_PROPERTY(key.has_value() == crypto::decrypt_key(as_text(input), kPassword).has_value());
    return key.has_value();
}

std::vector<Seed> seeds_keystore() {
    SeededRng rng(3);
    const auto scrypt = crypto::encrypt_key(sample_key(1), "password", rng, {.n = 2, .r = 1, .p = 1});
    QUERN_ACCEPTED(scrypt);
    // The specification's own example for PBKDF2, with one round: its MAC is wrong then, which is what is tested.
    return {text_seed("scrypt", scrypt->dump()),
            text_seed("pbkdf2",
                      R"({"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},)"
                      R"("ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",)"
                      R"("kdf":"pbkdf2","kdfparams":{"c":1,"dklen":32,"prf":"hmac-sha256",)"
                      R"("salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},)"
                      R"("mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},)"
                      R"("id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3})")};
}

// --- Short texts -----------------------------------------------------------------------------------------------------
bool run_values(BytesView input) {
    const std::string_view text = as_text(input);
    bool taken = false;
    if (const auto bytes = from_hex(text)) {
        taken = true;
        const auto again = from_hex(to_hex0x(*bytes));
        QUERN_ACCEPTED(again);
        QUERN_PROPERTY(*again == *bytes);
    }
    if (const auto number = Uint256::from_decimal(text)) {
        taken = true;
        const auto again = Uint256::from_decimal(number->to_decimal());
        QUERN_ACCEPTED(again);
        QUERN_PROPERTY(*again == *number);
    }
    if (const auto number = Uint256::from_hex_quantity(text)) {
        taken = true;
        const auto again = Uint256::from_hex_quantity(number->to_hex_quantity());
        QUERN_ACCEPTED(again);
        QUERN_PROPERTY(*again == *number && Uint256::from_be(number->to_be32()) == *number);
        QUERN_PROPERTY(Uint256::from_be(number->to_be_minimal()) == *number);
    }
    if (const auto address = chain::types::parse_address(text)) {
        taken = true;
        const auto again = chain::types::parse_address(chain::types::to_checksum_address(*address));
        QUERN_ACCEPTED(again);
        QUERN_PROPERTY(*again == *address);
    }
    return taken;
}

std::vector<Seed> seeds_values() {
    return {text_seed("hex", "0x00ff7B"), text_seed("decimal", "115792089237316195423570985008687907853"),
            text_seed("quantity", "0xde0b6b3a7640000"),
            text_seed("address", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")};
}

// Input: size (8 bytes), then the header.
bool run_byte_range(BytesView input) {
    if (input.size() < 8) return false;
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < 8; ++i) size = size << 8 | input[i];
    const auto range = rpc::parse_range(as_text(input.subspan(8)), size);
    switch (range.kind) {
        case rpc::ByteRange::Kind::whole:
            QUERN_PROPERTY(range.offset == 0 && range.length == size);
            return false;
        case rpc::ByteRange::Kind::unsatisfiable:
            return false;
        case rpc::ByteRange::Kind::part:
            break;
    }
    QUERN_PROPERTY(range.length > 0 && range.offset < size && range.length <= size - range.offset);
    return true;
}

std::vector<Seed> seeds_byte_range() {
    std::vector<Seed> seeds;
    for (const char* header : {"bytes=0-9", "bytes=100-", "bytes=-5", "bytes=18446744073709551614-"}) {
        Bytes bytes{0, 0, 0, 0, 0, 1, 0, 0};
        append(bytes, as_bytes(header));
        seeds.push_back({"range_" + std::to_string(seeds.size()), std::move(bytes)});
    }
    return seeds;
}

// --- Sources of contents ---------------------------------------------------------------------------------------------
bool run_source_uri(BytesView input) {
    namespace transfer = compute::transfer;
    const auto uri = transfer::parse_source_uri(as_text(input));
    if (!uri) return false;
    const std::string text = uri->text();
    const auto again = transfer::parse_source_uri(text);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(again->text() == text);
    QUERN_PROPERTY(again->path == uri->path && again->query == uri->query && again->id == uri->id);
    // Nothing leads out of a folder, ends a header's line, or stands for somebody's password.
    QUERN_PROPERTY(uri->path.empty() || uri->path.front() == '/');
    QUERN_PROPERTY((uri->path + "/").find("/../") == std::string::npos);
    QUERN_PROPERTY((uri->path + "/").find("/./") == std::string::npos);
    QUERN_PROPERTY(uri->path.find("//") == std::string::npos);
    QUERN_PROPERTY(uri->authority.find_first_of("@/?#\\ ") == std::string::npos);
    for (const char c : text) QUERN_PROPERTY(c > ' ' && c <= '~');
    // What is shown holds no query.
    QUERN_PROPERTY(uri->shown().find('?') == std::string::npos);
    return true;
}

std::vector<Seed> seeds_source_uri() {
    const std::string id(64, 'a');
    return {text_seed("https", "https://example.org:8443/a/b%20c.u8?X-Amz-Date=1&y=%2F"),
            text_seed("folder", "https://[2001:db8::1]/contents/"),
            text_seed("s3", "s3://data.sets/train+1/x=2.u8#" + id),
            text_seed("ipfs", "ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi/set/data.u8"),
            text_seed("file", "file:///srv/data/..a/b%2cc#0x" + id),
            text_seed("outside", "file:///srv/%2e%2e/etc/a"),
            text_seed("credentials", "http://me:word@127.0.0.1/a")};
}

}  // namespace

std::span<const Target> text_targets() {
    static constexpr Target kTargets[] = {
        {"json", run_json, seeds_json},
        {"rpc", run_rpc, seeds_rpc},
        {"genesis", run_genesis, seeds_genesis},
        {"architecture", run_architecture, seeds_architecture},
        {"keystore", run_keystore, seeds_keystore},
        {"values", run_values, seeds_values, 128},
        {"byte_range", run_byte_range, seeds_byte_range, 128},
        {"source_uri", run_source_uri, seeds_source_uri, 256},
    };
    return kTargets;
}

}  // namespace quern::fuzz

#include "fuzz/samples.h"

#include "chain/consensus/certificate.h"

namespace quern::fuzz {

using namespace chain::types;

crypto::PrivateKey sample_key(std::uint8_t number) {
    Hash32 secret;
    secret.data[0] = 7;
    secret.data[31] = number;
    return std::move(*crypto::PrivateKey::from_bytes(secret));
}

std::vector<NamedTransaction> sample_transactions() {
    const crypto::PrivateKey key = sample_key(1);
    const Address to = crypto::address20(sample_key(2));
    std::vector<NamedTransaction> all;
    const auto add = [&](const char* name, Transaction tx) {
        sign(tx, key);
        all.push_back({name, std::move(tx)});
    };
    Transaction tx;
    tx.nonce = 3;
    tx.max_fee_per_gas = 2'000'000'000;
    tx.max_priority_fee_per_gas = tx.max_fee_per_gas;
    tx.gas_limit = 21'000;
    tx.to = to;
    tx.value = Uint256(0, 0, 1, 5);
    add("legacy_unprotected", tx);
    tx.chain_id = 7878;
    add("legacy", tx);
    Transaction creation = tx;
    creation.to.reset();
    creation.data = {0x60, 0x00, 0x60, 0x00, 0xfd};
    add("legacy_creation", creation);
    tx.type = TxType::access_list;
    tx.access_list = {{to, {Hash32{{1}}, Hash32{{2}}}}, {crypto::address20(key), {}}};
    add("access_list", tx);
    tx.type = TxType::dynamic_fee;
    tx.max_priority_fee_per_gas = 2;
    tx.data = Bytes(70, 0x5a);
    add("dynamic_fee", tx);
    Transaction set_code = tx;
    set_code.type = TxType::set_code;
    set_code.authorization_list = {{7878, to, 9, 1, Uint256(5), Uint256(6)}};
    add("set_code", set_code);
    Transaction native;
    native.type = TxType::native;
    native.chain_id = 7878;
    native.nonce = 200;
    native.max_fee_per_gas = 100;
    native.max_priority_fee_per_gas = 1;
    native.gas_limit = 100'000;
    native.native_kind = static_cast<std::uint8_t>(NativeKind::task_bid);
    native.data = encode_record(TaskBidPayload{4, 0, Uint256(1000)});
    add("native", native);
    return all;
}

Block sample_block() {
    SeededRng rng(11);
    Block block;
    auto& header = block.header;
    for (Hash32* hash : {&header.parent_hash, &header.state_root, &header.transactions_root, &header.receipts_root,
                         &header.prev_randao, &header.withdrawals_root, &header.parent_beacon_block_root,
                         &header.consensus.committee_hash, &header.consensus.native_root})
        rng.fill(hash->data);
    header.beneficiary = crypto::address20(sample_key(1));
    header.number = 77;
    header.gas_limit = 30'000'000;
    header.gas_used = 42'000;
    header.timestamp = 1'700'000'000;
    header.base_fee_per_gas = 1'000'000'000;
    header.consensus.view = 78;
    header.consensus.epoch = 1;
    header.consensus.beacon = header.prev_randao;
    header.consensus.timestamp_ms = 1'700'000'000'250;
    for (const auto& [name, tx] : sample_transactions()) block.transactions.push_back(encode(tx));
    block.withdrawals.push_back({1, 2, crypto::address20(sample_key(3)), 4});
    std::vector<chain::consensus::CommitteeMember> members{{crypto::derive_public(sample_key(1)), Uint256(5)}};
    const auto committee = chain::consensus::Committee::make(members);
    const chain::consensus::Vote vote{chain::consensus::VoteType::finalize, 1, 77, header.parent_hash};
    block.parent_certificate = chain::consensus::encode(
        chain::consensus::make_certificate(vote, *committee, {{0, sign_vote({}, vote, sample_key(1))}}));
    return block;
}

Receipt sample_receipt(bool success) {
    Receipt receipt;
    receipt.type = success ? TxType::dynamic_fee : TxType::native;
    receipt.success = success;
    receipt.cumulative_gas_used = 1'000'000;
    receipt.gas_used = 50'000;
    receipt.effective_gas_price = 12;
    if (success) {
        receipt.logs.push_back({group_address(KindGroup::roles), {Hash32{{1}}, Hash32{{2}}}, Bytes(64, 3)});
        receipt.logs.push_back({group_address(KindGroup::tasks), {}, {}});
    } else {
        receipt.failure = "task.not_open";
    }
    return receipt;
}

}  // namespace quern::fuzz

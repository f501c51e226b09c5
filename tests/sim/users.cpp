#include "sim/users.h"

#include <algorithm>
#include <bit>

#include "chain/types/validator_proof.h"
#include "compute/core/program_opening.h"
#include "compute/core/task_plan.h"
#include "crypto/hash.h"

namespace quern::sim {
namespace {

namespace tensor = vm::tensor;
using types::NativeKind;
using types::Role;

constexpr std::size_t kMaxWaiting = 200;

crypto::PrivateKey user_key(std::size_t user) {
    const Bytes name = to_bytes(as_bytes("user " + std::to_string(user)));
    return std::move(*crypto::PrivateKey::from_bytes(crypto::sha256(name)));
}

// One slot, to which each step adds 1.5: the smallest program that a task can have.
tensor::Program smallest_program() {
    tensor::Node slot;
    slot.op = tensor::Op::slot;
    slot.attributes = {0};
    tensor::Node step;
    step.op = tensor::Op::full;
    step.immediate = std::bit_cast<std::uint32_t>(1.5F);
    tensor::Node sum;
    sum.op = tensor::Op::elementwise;
    sum.element = tensor::arith::ElementOp::add;
    sum.inputs = {0, 1};
    tensor::Program program;
    program.nodes = {slot, step, sum};
    program.slots = {{"loss", tensor::DType::f32, {}, 0}};
    program.updates = {2};
    program.header.data = {{tensor::DataType::u8, 1}};
    program.header.loss_slot = 0;
    tensor::complete_header(program);
    return program;
}

const types::TaskSubmitPayload& task_payload() {
    static const types::TaskSubmitPayload payload = [] {
        const auto program = smallest_program();
        const compute::core::ProgramProver prover(program);
        types::TaskSubmitPayload spec;
        spec.plan =
            compute::core::TaskPlan::make({{prover.root(), program.header}}, compute::core::plain_body(4))->bytes();
        spec.header_paths = {prover.header_path()};
        spec.init_root = crypto::sha256(as_bytes("init root"));
        spec.contents.programs = {crypto::sha256(as_bytes("program"))};
        spec.contents.init = crypto::sha256(as_bytes("init"));
        spec.data_roots.assign(program.header.data.size(), crypto::sha256(as_bytes("data")));
        spec.work.interval = 2;
        spec.work.verifiers = 1;
        spec.work.samples = 20;
        spec.money.price_cap = 10;
        spec.money.tax = 33;
        spec.windows.bid_s = spec.windows.start_s = spec.windows.heartbeat_s = 1;
        spec.windows.prove_s = spec.windows.verify_s = spec.windows.challenge_s = 1;
        return spec;
    }();
    return payload;
}

template <class Payload>
void put(types::Transaction& tx, NativeKind kind, const Payload& payload) {
    tx.native_kind = static_cast<std::uint8_t>(kind);
    tx.data = types::encode_record(payload);
}

}  // namespace

types::Address user_address(std::size_t user) { return crypto::address20(user_key(user)); }

types::RecoveredTransaction Users::send() {
    if (waiting_.size() >= kMaxWaiting || (!waiting_.empty() && rng_.below(3) == 0))
        return waiting_[rng_.below(waiting_.size())];
    waiting_.push_back(make());
    return waiting_.back();
}

void Users::prune(const RealChain& chain) {
    std::erase_if(waiting_,
                  [&](const auto& transaction) { return transaction.tx.nonce < chain.nonce_of(transaction.sender); });
}

void Users::choose_staking(types::Transaction& tx, std::size_t user) {
    const Uint256 qrn = chain::params::kGrainsPerQrn;
    if (joiner_) {
        types::CreateValidatorPayload payload;
        payload.public_key = joiner_->public_key;
        payload.proof = types::sign_validator_proof(chain::params::kDevnetChainId, user_address(user), *joiner_->key);
        payload.amount = qrn * Uint256(1 + rng_.below(8));
        joiner_.reset();
        return put(tx, NativeKind::create_validator, payload);
    }
    const std::size_t which = rng_.below(validators_.size());
    auto& validator = validators_[which];
    std::uint64_t& mine = delegated_[{user, which}];
    if (mine > 0 && rng_.below(2) == 0) {
        const std::uint64_t amount = 1 + rng_.below(mine);
        mine -= amount;
        return put(tx, NativeKind::undelegate, types::UndelegatePayload{validator.address, qrn * Uint256(amount)});
    }
    if (validator.room == 0)
        return put(tx, NativeKind::withdraw_stake, types::WithdrawStakePayload{validator.address, user_address(user)});
    const std::uint64_t amount = 1 + rng_.below(std::min<std::uint64_t>(validator.room, 6));
    validator.room -= amount;
    mine += amount;
    put(tx, NativeKind::delegate, types::DelegatePayload{validator.address, qrn * Uint256(amount)});
}

void Users::choose_native(types::Transaction& tx, std::size_t user) {
    const Role role = user % 3 != 0 ? Role::solver : Role::verifier;
    const Uint256 amount = Uint256(1 + rng_.below(40)) * (chain::params::kGrainsPerQrn / 10);
    // Most others are over. A form that can never be valid would hold up its sender's later nonces.
    const std::uint64_t task = std::max<std::uint64_t>(1, tasks_ - std::min(tasks_, rng_.below(4)));
    switch (rng_.below(12)) {
        case 0:
        case 1:
            return put(tx, NativeKind::bond, types::BondPayload{role, amount});
        case 2:
            return put(tx, NativeKind::unbond, types::UnbondPayload{role, amount});
        case 3:
            return put(tx, NativeKind::withdraw, types::WithdrawPayload{role});
        case 4:
            ++tasks_;
            return put(tx, NativeKind::task_submit, task_payload());
        case 5:
        case 6:
        case 7:
        case 8:
            return put(tx, NativeKind::task_bid, types::TaskBidPayload{task, 0, Uint256(1 + rng_.below(10))});
        case 9:
            return put(tx, NativeKind::task_start, types::TaskIdPayload{task});
        default:
            return put(tx, NativeKind::tick, types::TickPayload{types::TickObject::task, task});
    }
}

types::Transaction Users::form(std::size_t user) {
    types::Transaction tx;
    tx.type = types::TxType::dynamic_fee;
    tx.chain_id = chain::params::kDevnetChainId;
    tx.nonce = nonces_[user]++;
    tx.max_priority_fee_per_gas = Uint256(1 + rng_.below(5)) * 1'000'000'000;
    tx.max_fee_per_gas = 100'000'000'000;
    tx.gas_limit = 2'000'000;
    return tx;
}

types::RecoveredTransaction Users::sign(types::Transaction tx, std::size_t user) {
    types::sign(tx, user_key(user));
    return *types::recover(types::encode(tx));
}

types::RecoveredTransaction Users::make() {
    const std::size_t user = rng_.below(kUsers);
    auto tx = form(user);
    const std::uint64_t choice = rng_.below(10);
    if (choice < 4) {
        tx.gas_limit = 21'000;
        tx.to = user_address(rng_.below(kUsers + 2));
        tx.value = Uint256(1 + rng_.below(1000)) * 1'000'000;
    } else {
        tx.type = types::TxType::native;
        if (choice < 6 && !validators_.empty())
            choose_staking(tx, user);
        else
            choose_native(tx, user);
    }
    return sign(std::move(tx), user);
}

}  // namespace quern::sim

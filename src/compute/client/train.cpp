#include "compute/client/train.h"

#include <chrono>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/fs.h"
#include "base/thread_pool.h"
#include "chain/types/json_codec.h"
#include "compute/client/local.h"
#include "compute/client/profilers.h"
#include "compute/client/progress.h"
#include "compute/client/result.h"
#include "compute/client/submission.h"
#include "compute/client/training.h"
#include "compute/transfer/deliver.h"
#include "compute/worker/node_client.h"
#include "rpc/content_upload.h"
#include "wallet/amount.h"

namespace quern::compute::client {
namespace {

namespace types = chain::types;
using wallet::in_qrn;

constexpr std::chrono::milliseconds kLook{50};  // how long nobody looks whether it is to stop

class MarketTraining {
public:
    MarketTraining(const TrainOptions& options, const Console& console, const std::atomic<bool>& stop)
        : options_(options),
          console_(console),
          stop_(stop),
          node_(options.node_host, options.node_port, options.credentials_file) {}

    Status run(const OpenKey& open_key) {
        QUERN_CHECK(ask_chain());
        QUERN_TRY(const crypto::PrivateKey key, open_key());
        QUERN_TRY(JobFile file, JobFile::open(options_.out));
        const Preparation asks{
            [&](const types::TaskSubmitPayload& spec) { return check_job(file, spec, crypto::address20(key)); },
            [&](const Training& so_far) -> Status {
                QUERN_CHECK(agree(so_far, crypto::address20(key)));
                return {};
            }};
        QUERN_TRY(const Training training,
                  prepare_training(options_, file.folder(), &stop_, machine_memory(), &console_, asks));
        if (file.job() && file.job()->stage == stage::kDone) {
            QUERN_TRY(const bool there, tell_done(file, training));
            if (there) return {};
        }
        if (file.job())
            console_.tell({"resumed", json::Value::object({{"stage", file.job()->stage}, {"task", file.job()->task}}),
                           "goes on with what " + file.path() + " is about"});
        else
            QUERN_CHECK(begin(file, training, key));
        if (file.job()->stage == stage::kSubmitting) QUERN_CHECK(submit(file, training));
        return follow(file, training);
    }

private:
    Status ask_chain() {
        const auto chain = node_.chain_id();
        if (!chain)
            return fail(kNoNode, "http://" + options_.node_host + ":" + std::to_string(options_.node_port) +
                                     " does not answer (" + chain.error().to_string() + "); is quernd running? --node");
        chain_id_ = *chain;
        if (options_.chain_id && *options_.chain_id != chain_id_)
            return fail("train.wrong_chain", "the node's chain is " + std::to_string(chain_id_) + ", --chain-id says " +
                                                 std::to_string(*options_.chain_id));
        return {};
    }

    // What a former run has left must be about the same.
    Status check_job(const JobFile& file, const types::TaskSubmitPayload& spec, const types::Address& account) const {
        if (!file.job()) return {};
        const Job& job = *file.job();
        if (job.training != training_id(spec))
            return fail("train.other_job",
                        file.path() + " is about another training: remove it, or choose another --out");
        if (job.chain_id != chain_id_)
            return fail("train.wrong_chain", file.path() + " is about chain " + std::to_string(job.chain_id) +
                                                 ", the node's is " + std::to_string(chain_id_));
        if (job.submitter != account)
            return fail("train.wrong_key", file.path() + " is of " + types::to_checksum_address(job.submitter) +
                                               ", the key of " + types::to_checksum_address(account));
        return {};
    }

    // The chain may not know the task any more. False: the result is not here, or not what was verified.
    Expected<bool> tell_done(const JobFile& file, const Training& training) const {
        const Job& job = *file.job();
        const std::string root = to_hex0x(job.state_root);
        ThreadPool pool(options_.threads);
        QUERN_TRY(const Kept kept, keep_result(options_, training, job.state_root, file.folder(), &pool));
        if (kept == Kept::nothing) return false;
        json::Value told = json::Value::object(
            {{"out", options_.out}, {"stateRoot", root}, {"local", false}, {"task", job.task}, {"before", true}});
        if (training.onnx) told.set("onnx", options_.export_onnx);
        console_.tell({"result", std::move(told),
                       options_.out + (kept == Kept::whole ? " is there already" : " is written again") +
                           ", the verified result of task " + std::to_string(job.task) + "; state root " + root});
        return true;
    }

    // The offer, with a price that somebody has agreed to: before a profiling, and after it again where more is asked.
    Expected<Offer> agree(const Training& training, const types::Address& account) {
        if (options_.budget.empty()) return fail("train.no_budget", "--budget says the most that it may cost: 5qrn");
        QUERN_TRY(const Uint256 budget, parse_budget(options_.budget));
        QUERN_TRY(const Uint256 balance, balance_of(account));
        wallet::SpecOptions terms = training.files;
        QUERN_TRY(const json::Value params, node_.call("quern_params", json::Value::array()));
        terms.params = params.dump();
        const auto within = [&](const Uint256& most) {
            return make_offer(node_, account, balance, chain_id_, training.spec, terms, most);
        };
        if (agreed_) {
            auto offer = within(*agreed_);
            if (offer) return offer;
        }
        QUERN_TRY(Offer offer, within(budget));
        QUERN_CHECK(look_for_profilers(offer, account));
        tell_price(offer);
        if (!options_.yes) {
            QUERN_TRY(const bool agreed, console_.ask("Submit for at most " + in_qrn(offer.most) + " QRN? [y/N] "));
            if (!agreed) return fail(kDeclined, "nothing was sent");
        }
        agreed_ = offer.most;
        return offer;
    }

    // Whether the chain has as many verifiers as must agree: without them the task costs its fee and ends.
    Status look_for_profilers(const Offer& offer, const types::Address& account) {
        const types::ProfilingTerms& terms = offer.spec.profiling;
        if (terms.profilers == 0) return {};
        QUERN_TRY(const json::Value bonds, node_.call("stake_roles", json::Value::array({"verifier"})));
        const Uint256& bond = offer.price.profiler_bond;
        QUERN_TRY(const std::size_t able, count_able(bonds, bond, account));
        QUERN_CHECK(check_able(terms, able, bond));
        console_.tell(able_event(terms, able, bond, offer.price.escrow.profiler_fee));
        return {};
    }

    // Price, question, contents, and the signed transaction on disk: nothing of it is on the chain yet.
    Status begin(JobFile& file, const Training& training, const crypto::PrivateKey& key) {
        QUERN_TRY(const Offer offer, agree(training, crypto::address20(key)));
        QUERN_CHECK(upload(training));
        if (stop_) return fail(kStopped, "nothing was sent");
        QUERN_TRY(Job job, sign_offer(node_, offer, key, chain_id_, training_id(training.spec)));
        return file.save(std::move(job));
    }

    Expected<Uint256> balance_of(const types::Address& account) {
        QUERN_TRY(const json::Value value,
                  node_.call("eth_getBalance", json::Value::array({to_hex0x(account), "latest"})));
        QUERN_TRY(const std::string_view text, value.as_string());
        return Uint256::from_hex_quantity(text);
    }

    void tell_price(const Offer& offer) {
        const auto& escrow = offer.price.escrow;
        json::Value told = offer.price.json;
        told.set("fee", offer.fee.to_decimal());
        told.set("most", offer.most.to_decimal());
        console_.tell({"price", std::move(told),
                       "at most " + in_qrn(offer.most) + " QRN: reward " + in_qrn(escrow.reward) + ", " +
                           wallet::other_parts(escrow) + ", fee " + in_qrn(offer.fee) +
                           "; what is not used comes back"});
    }

    Status upload(const Training& training) {
        http::ClientOptions http;
        rpc::Client client(options_.node_host, options_.node_port, http);
        std::vector<std::pair<std::string, Hash32>> files;
        for (std::size_t i = 0; i < training.files.programs.size(); ++i)
            files.emplace_back(training.files.programs[i], training.spec.contents.programs[i]);
        files.emplace_back(training.files.init, training.spec.contents.init);
        for (std::size_t i = 0; i < options_.data.size() && !options_.data_elsewhere; ++i)
            files.emplace_back(options_.data[i], training.spec.data_roots[i]);
        for (const std::string& path : training.made_data())
            files.emplace_back(path, training.spec.data_roots[options_.data.size()]);
        for (const auto& [path, id] : files) {
            console_.tell({"uploading", json::Value::object({{"file", path}, {"content", to_hex0x(id)}}),
                           "uploading " + path, true});
            QUERN_TRY(const Hash32 put, rpc::put_file(client, path));
            if (put != id) return fail("train.data_changed", path + " changed while it was read");
        }
        return {};
    }

    // Sends what was signed until a block has it.
    Status submit(JobFile& file, const Training& training) {
        const std::string hash = to_hex0x(transaction_of(*file.job()));
        const auto event = [&](std::string_view name, std::string text) {
            console_.tell({name, json::Value::object({{"transaction", hash}}), std::move(text)});
        };
        event("sending", "sending transaction " + hash);
        bool told = false;
        for (bool first = true;; first = false) {
            if (!first) QUERN_CHECK(pause());
            const auto found = push(node_, *file.job());
            if (!found && !found.error().is_busy()) return refused(file, found.error());
            if (!found) {
                tell_silence(found.error());
                continue;
            }
            if (!told) event("sent", "waits for a block");
            told = true;
            if (!*found) continue;
            if (!(*found)->success) return failed(file, (*found)->failure);
            QUERN_TRY(const bool known, take_receipt(file, hash, training));
            if (known) return {};
        }
    }

    static Status refused(const JobFile& file, const Error& error) {
        return detailed(error, error.detail + "; no block has the transaction of " + file.path() +
                                   ". The same command sends it again. If another one took its nonce it can come no "
                                   "more: then remove the file to submit anew");
    }
    Status failed(JobFile& file, const std::string& why) {
        QUERN_CHECK(file.remove());
        return fail("train.not_accepted", why + ": no task was made, only the fee is paid");
    }

    // False: the node does not say yet.
    Expected<bool> take_receipt(JobFile& file, const std::string& hash, const Training& training) {
        const auto receipt = node_.call("eth_getTransactionReceipt", json::Value::array({hash}));
        const auto found = receipt ? read_receipt(*receipt) : Expected<Submitted>(fail(receipt.error()));
        if (!found && found.error().is_busy()) return false;
        if (!found) return fail(found.error());
        Job job = *file.job();
        job.stage = stage::kFollowing;
        job.task = found->task;
        job.fee = found->fee;
        QUERN_CHECK(file.save(job));
        console_.tell({"submitted",
                       json::Value::object({{"task", job.task},
                                            {"escrow", job.escrow.to_decimal()},
                                            {"fee", job.fee.to_decimal()},
                                            {"steps", training.programs.plan.steps()}}),
                       "task " + std::to_string(job.task) + ", " + in_qrn(job.escrow) + " QRN in escrow, fee " +
                           in_qrn(job.fee) + " QRN"});
        return true;
    }

    // The specification that was signed, with its price cap.
    static Expected<types::TaskSubmitPayload> signed_spec(const JobFile& file) {
        const auto tx = types::decode_transaction(file.job()->transaction);
        if (!tx) return fail("train.bad_job", file.path() + ": " + tx.error().to_string());
        auto spec = types::decode_record<types::TaskSubmitPayload>(tx->data);
        if (!spec) return fail("train.bad_job", file.path() + ": " + spec.error().to_string());
        return spec;
    }

    Status follow(JobFile& file, const Training& training) {
        QUERN_TRY(const types::TaskSubmitPayload spec, signed_spec(file));
        const Job job = *file.job();
        Follower follower(job, training.programs.plan.steps());
        for (bool first = true;; first = false) {
            if (!first) QUERN_CHECK(pause());
            QUERN_TRY(const Look look, until_answered([&] { return look_at(job.task); }));
            QUERN_CHECK(check_task(look.task, spec));
            if (first) follower.recall(checkpoints_before(look));
            for (const Event& each : follower.take(look, clock_.monotonic_ms())) console_.tell(each);
            if (look.task.state == types::TaskState::settled) return finish(file, training, look);
            if (types::is_final(look.task.state)) return ended(file, look);
        }
    }

    // For the curve alone: without them it begins now.
    std::vector<PastCheckpoint> checkpoints_before(const Look& look) {
        const auto logs = node_.call("eth_getLogs", json::Value::array({checkpoint_filter(look.task.id)}));
        auto past = logs ? read_checkpoints(*logs) : fail(logs.error());
        if (!past) return {};
        std::erase_if(*past, [&](const PastCheckpoint& each) { return each.step >= step_of(look); });
        return std::move(*past);
    }

    Expected<Look> look_at(std::uint64_t task) {
        QUERN_TRY(const json::Value value, node_.call("task_get", json::Value::array({task})));
        if (value.is_null())
            return fail("train.task_unknown", "the node does not know task " + std::to_string(task) +
                                                  ": it is deleted some time after its end, or this is another chain");
        QUERN_TRY(Look look, read_look(value));
        if (look.task.state == types::TaskState::profiling) look.market_ms = market_time();
        return look;
    }

    // For the time left alone.
    std::optional<std::uint64_t> market_time() {
        const auto answer = node_.call("quern_marketTime", json::Value::array());
        if (!answer) return std::nullopt;
        const auto ms = answer->get_u64("marketMs");
        return ms ? std::optional(*ms) : std::nullopt;
    }

    Status ended(JobFile& file, const Look& look) {
        Job job = *file.job();
        job.stage = stage::kEnded;
        QUERN_CHECK(file.save(job));
        const std::string detail = "task " + std::to_string(look.task.id) + ": " + look.task.reason +
                                   advice_without_limits(look.task) + "; refunded " + in_qrn(refunded(look)) +
                                   " QRN, paid " + in_qrn(paid(look, job.escrow)) + ", the deposit of " +
                                   in_qrn(look.task.deposit) +
                                   " comes when the task is deleted. To submit anew remove " + file.path();
        if (look.task.state == types::TaskState::expired) return fail("train.task_expired", detail);
        if (look.task.state == types::TaskState::cancelled) return fail("train.task_cancelled", detail);
        return fail("train.task_failed", detail);
    }

    Status finish(JobFile& file, const Training& training, const Look& look) {
        const std::string root = to_hex0x(look.claim.final_root);
        console_.tell({"downloading", json::Value::object({{"stateRoot", root}}), "downloading the final state"});
        QUERN_TRY(const types::ProofRecord proof, proof_of(look.task.id));
        QUERN_CHECK(check_proof(proof, look));
        ThreadPool pool(options_.threads);
        QUERN_TRY(const vm::tensor::State state, download(training, look, pool));
        QUERN_CHECK(write_result(options_, training, state, file.folder()));
        Job job = *file.job();
        job.stage = stage::kDone;
        job.step = look.task.steps;
        job.state_root = look.claim.final_root;
        QUERN_CHECK(file.save(job));
        const Uint256 cost = paid(look, file.job()->escrow);
        json::Value told = json::Value::object({{"out", options_.out},
                                                {"stateRoot", root},
                                                {"local", false},
                                                {"task", look.task.id},
                                                {"paid", cost.to_decimal()},
                                                {"refunded", refunded(look).to_decimal()},
                                                {"held", look.task.held.to_decimal()},
                                                {"deposit", look.task.deposit.to_decimal()},
                                                {"fee", file.job()->fee.to_decimal()},
                                                {"passes", std::uint64_t{look.task.passes}}});
        std::string text = options_.out + " is the verified result of task " + std::to_string(look.task.id) + " (" +
                           std::to_string(look.task.passes) + " verifiers passed it); state root " + root + "; paid " +
                           in_qrn(cost) + " QRN, refunded " + in_qrn(refunded(look));
        if (training.onnx) told.set("onnx", options_.export_onnx);
        if (training.tolerant) {
            const bool accepted = tolerance::judge::accepted(training.tolerant->programs, state);
            told.set("accepted", accepted);
            if (!accepted)
                text +=
                    "; a claim was not within the limits, from there on the solver trained canonically: where the "
                    "model is noisier than its first segments, --allow-l2 and the like make limits wider, and where "
                    "it moves by much less or more, --range";
        }
        if (!look.task.held.is_zero())
            text += "; " + in_qrn(look.task.held) + " is held for the solver: quern-wallet accept --task " +
                    std::to_string(look.task.id) + " pays it";
        Event event{"result", std::move(told), std::move(text)};
        tell_metrics(training.programs.any(), state, event);
        console_.tell(event);
        return {};
    }

    Expected<types::ProofRecord> proof_of(std::uint64_t task) {
        QUERN_TRY(const json::Value value,
                  until_answered([&] { return node_.call("proof_get", json::Value::array({task})); }));
        if (value.is_null()) return fail("train.wrong_proof", "the node has no record of task " + std::to_string(task));
        auto proof = types::record_from_json<types::ProofRecord>(value);
        if (!proof) return fail("train.bad_answer", "proof_get: " + proof.error().to_string());
        return proof;
    }

    Expected<vm::tensor::State> download(const Training& training, const Look& look, ThreadPool& pool) {
        return until_answered([&] { return fetch_result(node_, training.programs.any(), look, &pool); });
    }

    // Asks again while the node is busy, or gets it from others.
    template <class Ask>
    auto until_answered(const Ask& ask) -> decltype(ask()) {
        for (;;) {
            auto answer = ask();
            if (answer || !answer.error().is_busy()) {
                silent_ = false;
                return answer;
            }
            tell_silence(answer.error());
            QUERN_CHECK(pause());
        }
    }

    void tell_silence(const Error& error) {
        if (silent_) return;
        silent_ = true;
        console_.tell({"waiting", json::Value::object({{"for", error.to_string()}}), "waits: " + error.to_string()});
    }

    // Error train.stopped.
    Status pause() const {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.poll_ms);
        do {
            if (stop_) return fail(kStopped, "the task goes on without you; the same command goes on following it");
            std::this_thread::sleep_for(kLook);
        } while (std::chrono::steady_clock::now() < until);
        return {};
    }

    const TrainOptions& options_;
    const Console& console_;
    const std::atomic<bool>& stop_;
    worker::NodeClient node_;
    SystemClock clock_;
    std::uint64_t chain_id_ = 0;
    std::optional<Uint256> agreed_;  // the most that it may cost, of which somebody was asked
    bool silent_ = false;            // was told that the node does not answer
};

// The result is there, whatever comes of this: the same command delivers what is not there yet.
Status deliver_all(const TrainOptions& options, const Console& console, const std::atomic<bool>& stop) {
    const Cancellation stopping([&stop] { return stop.load(); });
    for (const std::string& output : options.outputs) {
        QUERN_TRY(const transfer::Delivered done, transfer::deliver(options.out, output, options.transfer, &stopping));
        console.tell({"delivered",
                      json::Value::object({{"to", done.shown},
                                           {"bytes", done.size},
                                           {"content", to_hex0x(done.id)},
                                           {"before", done.before},
                                           {"verified", done.verified}}),
                      done.shown + (done.before     ? " has it already"
                                    : done.verified ? " has it, and gives it back as it is"
                                                    : " took it, and does not let it be read back")});
    }
    return {};
}

}  // namespace

Status train(const TrainOptions& options, const OpenKey& open_key, const Console& console,
             const std::atomic<bool>& stop) {
    // Before anything is paid.
    for (const std::string& output : options.outputs) QUERN_CHECK(transfer::check_target(output, options.transfer));
    if (!options.local) {
        QUERN_CHECK(MarketTraining(options, console, stop).run(open_key));
        return deliver_all(options, console, stop);
    }
    {
        QUERN_TRY(JobFile file, JobFile::open(options.out));
        const Preparation asks{
            [&](const types::TaskSubmitPayload& spec) { return check_local_job(options, spec, file); }, {}};
        QUERN_TRY(const Training training,
                  prepare_training(options, file.folder(), &stop, machine_memory(), &console, asks));
        QUERN_CHECK(train_here(options, training, file, console, stop));
    }
    return deliver_all(options, console, stop);
}

}  // namespace quern::compute::client

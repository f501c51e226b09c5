#include "rpc/ws_session.h"

#include <array>

#include "base/ensure.h"
#include "base/rng.h"
#include "rpc/values.h"

namespace quern::rpc {
namespace {

constexpr std::size_t kSubscriptionBytes = 512;  // of one, without its filter
constexpr std::uint32_t kBackPressureMs = 10;    // until it is looked again whether the client has read

}  // namespace

std::string notification(std::string_view group, std::string_view id, std::string_view result) {
    const std::array<std::string_view, 7> parts = {R"({"jsonrpc":"2.0","method":")",
                                                   group,
                                                   R"(_subscription","params":{"subscription":")",
                                                   id,
                                                   R"(","result":)",
                                                   result,
                                                   "}}"};
    std::size_t size = 0;
    for (const std::string_view part : parts) size += part.size();
    std::string text;
    text.reserve(size);
    for (const std::string_view part : parts) text += part;
    return text;
}

void WsSession::received(std::string text) {
    {
        const MutexLock lock(mutex_);
        if (ended_) return;
        const auto& options = parts_.options;
        if (waiting_.size() < options.max_waiting_requests &&
            (waiting_.empty() || waiting_bytes_ + text.size() <= options.max_waiting_bytes)) {
            waiting_bytes_ += text.size();
            hold(text.size());
            waiting_.push_back(std::move(text));
            if (std::exchange(answering_, true)) return;
            parts_.post([self = shared_from_this()] { self->answer_next(); });
            return;
        }
    }
    parts_.transport.close(id_, websocket::kTryAgainLater, "too many requests wait for their answers");
}

void WsSession::answer_next() {
    std::string request;
    {
        const MutexLock lock(mutex_);
        if (ended_ || waiting_.empty()) {
            answering_ = false;
            return;
        }
        request = std::move(waiting_.front());
        waiting_.pop_front();
        deduct(waiting_bytes_, request.size());
    }
    if (request.size() <= kSmallRequest) return begin(std::move(request));
    parts_.begin_large(
        *this,
        [self = shared_from_this(), request = std::move(request)]() mutable {
            self->parts_.post([self, request = std::move(request)]() mutable { self->begin(std::move(request)); });
        },
        [self = shared_from_this()] {
            self->parts_.transport.close(self->id_, websocket::kTryAgainLater, "too many large requests wait");
        });
    bool ended = false;
    {
        const MutexLock lock(mutex_);
        ended = ended_;
    }
    if (ended) parts_.forget_large(*this);  // end() came before
}

void WsSession::begin(std::string request) {
    auto running = std::make_shared<Running>(std::chrono::milliseconds(parts_.options.call_ms), parts_.stopping);
    running->request = running->held = request.size();
    running->job = parts_.rpc(std::move(request), CallContext{caller_, this, &running->deadline});
    bool ended = false;
    {
        const MutexLock lock(mutex_);
        ended = ended_;
        if (!ended) running_ = running;
    }
    if (!ended) return run(running);
    if (running->request > kSmallRequest) parts_.end_large();
}

void WsSession::run(const std::shared_ptr<Running>& running) {
    if (!running->job->run(kJobSlice) && !parts_.stopping) {
        const std::size_t held = running->request + running->job->held();
        hold(held - std::exchange(running->held, held));
        return parts_.post([self = shared_from_this(), running] { self->run(running); });
    }
    auto answer = running->job->take_answer();
    running->job.reset();
    {
        const MutexLock lock(mutex_);
        running_.reset();
    }
    let_go(running->held);
    if (running->request > kSmallRequest) parts_.end_large();
    if (answer) (void)parts_.transport.send(id_, std::move(*answer));  // gone or too slow: closed() ends the session
    activate();
    go_on();
}

// The next request gets its turn behind those of other connections, and only when the client reads its answers.
void WsSession::go_on() {
    if (parts_.transport.waiting_bytes(id_) > parts_.options.max_outgoing_bytes / 2)
        return parts_.transport.run_after(kBackPressureMs, [self = shared_from_this()] { self->go_on(); });
    parts_.post([self = shared_from_this()] { self->answer_next(); });
}

void WsSession::activate() {
    const MutexLock lock(mutex_);
    for (auto& [id, entry] : subscriptions_) {
        if (!std::exchange(entry.fresh, false)) continue;
        for (auto& text : entry.held) (void)parts_.transport.send(id_, std::move(text));
        entry.held = {};
    }
    let_go(std::exchange(held_bytes_, 0));
}

void WsSession::notify(const std::string& id, std::string_view group, const std::string& result) {
    bool too_much = false;
    {
        // Sent under the lock: none may follow the answer of an unsubscription.
        const MutexLock lock(mutex_);
        const auto found = subscriptions_.find(id);
        if (found == subscriptions_.end()) return;
        std::string text = notification(group, id, result);
        if (!found->second.fresh) {
            (void)parts_.transport.send(id_, std::move(text));
            return;
        }
        held_bytes_ += text.size();
        hold(text.size());
        too_much = held_bytes_ > parts_.options.max_outgoing_bytes;
        if (!too_much) found->second.held.push_back(std::move(text));
    }
    if (too_much) parts_.transport.close(id_, websocket::kPolicyViolation, "too slow: messages wait unread");
}

template <class Call>
void WsSession::tell(Call&& call) {
    std::vector<std::pair<std::string, std::shared_ptr<Subscription>>> all;
    {
        const MutexLock lock(mutex_);
        all.reserve(subscriptions_.size());
        for (const auto& [id, entry] : subscriptions_) all.emplace_back(id, entry.subscription);
    }
    for (const auto& [id, subscription] : all)
        call(*subscription,
             [this, &id = id, group = subscription->group()](const std::string& result) { notify(id, group, result); });
}

void WsSession::on_block(const chain::api::BlockEvent& event, TextCache& texts) {
    tell([&](Subscription& subscription, const Emit& emit) { subscription.on_block(event, texts, emit); });
}

void WsSession::on_transaction(const chain::types::RecoveredTransaction& transaction, TextCache& texts) {
    tell([&](Subscription& subscription, const Emit& emit) { subscription.on_transaction(transaction, texts, emit); });
}

void WsSession::end() {
    {
        const MutexLock lock(mutex_);
        ended_ = true;
        if (running_) running_->deadline.cancel();
        waiting_.clear();
        waiting_bytes_ = 0;
        parts_.subscriptions -= subscriptions_.size();
        subscriptions_.clear();
    }
    parts_.forget_large(*this);
}

std::size_t WsSession::subscriptions() const {
    const MutexLock lock(mutex_);
    return subscriptions_.size();
}

Expected<std::string> WsSession::subscribe(std::unique_ptr<Subscription> subscription) {
    FixedBytes<16> number;
    OsRng().fill(number.data);
    number.data[0] |= 0x10;  // without leading zeros it is a quantity, as geth's are
    std::string id = hex(number);
    const MutexLock lock(mutex_);
    if (ended_) return fail("subscription.connection_closed");
    if (subscriptions_.size() >= parts_.options.max_subscriptions)
        return fail("subscription.too_many",
                    "a connection may have " + std::to_string(parts_.options.max_subscriptions) + " subscriptions");
    const std::size_t bytes = kSubscriptionBytes + subscription->bytes();
    if (subscription_bytes_ + bytes > parts_.options.max_subscription_bytes)
        return fail("subscription.too_large", "the filters of a connection may take " +
                                                  std::to_string(parts_.options.max_subscription_bytes) + " bytes");
    subscription_bytes_ += bytes;
    hold(bytes);
    ++parts_.subscriptions;
    Entry& entry = subscriptions_[id];
    entry.bytes = bytes;
    entry.subscription = std::move(subscription);
    return id;
}

bool WsSession::unsubscribe(std::string_view group, std::string_view id) {
    const MutexLock lock(mutex_);
    const auto found = subscriptions_.find(id);
    if (found == subscriptions_.end() || found->second.subscription->group() != group) return false;
    deduct(subscription_bytes_, found->second.bytes);
    let_go(found->second.bytes);
    --parts_.subscriptions;
    subscriptions_.erase(found);
    return true;
}

}  // namespace quern::rpc

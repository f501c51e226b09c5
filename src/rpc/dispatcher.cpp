#include "rpc/dispatcher.h"

#include "base/json_text.h"

namespace quern::rpc {
namespace {

void append_error(std::string& out, const json::Value& id, const RpcError& error) {
    json::Value body = json::Value::object({{"code", error.code}, {"message", error.message}});
    if (!error.data.is_null()) body.set("data", error.data);
    out += R"({"jsonrpc":"2.0","id":)";
    json::append(out, id);
    out += R"(,"error":)";
    json::append(out, body);
    out += '}';
}

void append_result(std::string& out, const json::Value& id, const json::Value& result) {
    out += R"({"jsonrpc":"2.0","id":)";
    json::append(out, id);
    out += R"(,"result":)";
    json::append(out, result);
    out += '}';
}

constexpr std::size_t kMaxGroup = 256;  // calls that one batch handler gets at once

std::string error_response(int code, std::string message) {
    std::string out;
    append_error(out, {}, RpcError{code, std::move(message), {}});
    return out;
}

}  // namespace

class Dispatcher::Run final : public Job {
public:
    Run(const Dispatcher& owner, std::string request, const CallContext& context)
        : owner_(owner), request_(std::move(request)), context_(context) {}

    bool run(std::chrono::milliseconds slice) override {
        if (!parsed_) {
            parsed_ = true;
            if (!parse()) return true;
        }
        const auto until = std::chrono::steady_clock::now() + slice;
        do {
            if (const std::size_t many = group(); many > 1) {
                step_group(many);
                next_ += many;
            } else {
                step(document_.is_array() ? document_[next_] : document_);
                ++next_;
            }
            if (next_ < count_) continue;
            if (document_.is_array() && !answer_.empty()) answer_ += ']';
            return true;
        } while (std::chrono::steady_clock::now() < until);
        return false;
    }
    std::optional<std::string> take_answer() override {
        if (answer_.empty()) return std::nullopt;
        return std::move(answer_);
    }
    std::size_t held() const override { return answer_.capacity(); }

private:
    // False when there is nothing to call.
    bool parse() {
        auto document = json::parse(
            request_, {owner_.limits_.max_request_bytes, owner_.limits_.max_depth, owner_.limits_.max_values});
        request_ = {};
        if (!document) {
            answer_ = error_response(kParseError, "parse error: " + document.error().to_string());
            return false;
        }
        document_ = std::move(*document);
        if (!document_.is_array()) return true;
        count_ = document_.size();
        if (count_ == 0) {
            answer_ = error_response(kInvalidRequest, "empty batch");
        } else if (count_ > owner_.limits_.max_batch) {
            answer_ = error_response(kInvalidRequest, "batch too large: " + std::to_string(count_) + " calls, limit " +
                                                          std::to_string(owner_.limits_.max_batch));
            count_ = 0;
        }
        return count_ != 0;
    }

    // The method of a call that may go together with others: one that is right but perhaps for its arguments.
    const Method* groupable(const json::Value& request) const {
        const auto name = request.get_string("method");
        const Method* method = name ? owner_.registry_.find(*name) : nullptr;
        if (method == nullptr || !method->batch) return nullptr;
        const json::Value* version = request.find("jsonrpc");
        const json::Value* id = request.find("id");
        const bool good = version != nullptr && version->as_string().value_or("") == "2.0" &&
                          (id == nullptr || id->is_null() || id->is_string() || id->is_number());
        return good ? method : nullptr;
    }
    // How many of the next calls go together.
    std::size_t group() const {
        if (!document_.is_array() || answer_.size() > owner_.limits_.max_batch_response_bytes) return 1;
        const Method* method = groupable(document_[next_]);
        if (method == nullptr) return 1;
        std::size_t many = 1;
        while (many < kMaxGroup && next_ + many < count_ && groupable(document_[next_ + many]) == method) ++many;
        return many;
    }
    void step_group(std::size_t many) {
        static const json::Value kNone;
        std::vector<const json::Value*> params;
        for (std::size_t i = 0; i < many; ++i) {
            const json::Value* given = document_[next_ + i].find("params");
            params.push_back(given != nullptr ? given : &kNone);
        }
        const auto results = owner_.registry_.call_many(*groupable(document_[next_]), params, context_);
        for (std::size_t i = 0; i < many; ++i) {
            const json::Value* id = document_[next_ + i].find("id");
            if (id == nullptr) continue;  // a notification
            answer_ += answer_.empty() ? '[' : ',';
            if (results[i])
                append_result(answer_, *id, *results[i]);
            else
                append_error(answer_, *id, results[i].error());
        }
    }

    void step(const json::Value& request) {
        const std::size_t before = answer_.size();
        if (document_.is_array()) answer_ += answer_.empty() ? '[' : ',';
        const std::size_t start = answer_.size();
        if (before > owner_.limits_.max_batch_response_bytes) {
            if (const json::Value* id = request.find("id"))
                append_error(answer_, *id, RpcError{kLimitExceeded, "response too large", {}});
        } else {
            owner_.append_answer(answer_, request, context_);
        }
        if (answer_.size() == start) answer_.resize(before);  // a notification
    }

    const Dispatcher& owner_;
    std::string request_;
    const CallContext context_;
    json::Value document_;
    std::size_t count_ = 1;  // calls
    std::size_t next_ = 0;
    bool parsed_ = false;
    std::string answer_;
};

void Dispatcher::append_answer(std::string& out, const json::Value& request, const CallContext& context) const {
    static const json::Value kNone;
    const auto invalid = [&](const json::Value& id, std::string message) {
        append_error(out, id, RpcError{kInvalidRequest, std::move(message), {}});
    };
    if (!request.is_object()) return invalid(kNone, "invalid request: not an object");
    const json::Value* id = request.find("id");
    if (id != nullptr && !id->is_null() && !id->is_string() && !id->is_number())
        return invalid(kNone, "invalid request: the id must be a string, a number or null");
    const json::Value& answer_id = id != nullptr ? *id : kNone;
    const json::Value* version = request.find("jsonrpc");
    if (version == nullptr || version->as_string().value_or("") != "2.0")
        return invalid(answer_id, "invalid request: jsonrpc must be \"2.0\"");
    const auto method = request.get_string("method");
    if (!method) return invalid(answer_id, "invalid request: the method must be a string");
    const json::Value* params = request.find("params");
    const Result result = registry_.call(*method, params != nullptr ? *params : kNone, context);
    if (id == nullptr) return;
    if (result)
        append_result(out, answer_id, *result);
    else
        append_error(out, answer_id, result.error());
}

std::unique_ptr<Job> Dispatcher::begin(std::string request, const CallContext& context) const {
    return std::make_unique<Run>(*this, std::move(request), context);
}

std::optional<std::string> Dispatcher::handle(std::string_view request, const CallContext& context) const {
    Run whole(*this, std::string(request), context);
    while (!whole.run(std::chrono::hours(1))) {
    }
    return whole.take_answer();
}

}  // namespace quern::rpc

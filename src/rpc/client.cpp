#include "rpc/client.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "chain/api/content_gateway.h"
#include "rpc/auth.h"

namespace quern::rpc {
namespace {

constexpr unsigned kOk = 200;
constexpr unsigned kUnauthorized = 401;
constexpr unsigned kNotFound = 404;
constexpr unsigned kUnavailable = 503;
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20;
constexpr std::size_t kShownBody = 300;

std::string content_target(const Hash32& id) { return "/content/" + to_hex(id); }

std::string shards_target(const Hash32& id) { return content_target(id) + "/shards"; }

Error content_error(const http::Response& response) {
    if (response.status == kNotFound) return {"content.not_found", {}};
    if (response.status == kUnauthorized) return {"content.refused", "the node does not know these credentials"};
    std::string detail = "status " + std::to_string(response.status);
    bool on_its_way = false;
    if (const auto body = json::parse(response.body)) {
        if (const auto name = body->get_string("error")) {
            detail += ", " + std::string(*name);
            on_its_way = *name == chain::api::kContentOnItsWay;
        }
        if (const auto message = body->get_string("message")) detail += ": " + std::string(*message);
    }
    if (response.status == kUnavailable)
        return {on_its_way ? chain::api::kContentOnItsWay : "content.busy", std::move(detail), ErrorKind::busy};
    return {"content.refused", std::move(detail)};
}

json::Value request_json(std::uint64_t id, std::string_view method, json::Value params) {
    return json::Value::object({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}});
}

Expected<Result> read_answer(const json::Value& answer) {
    if (const json::Value* error = answer.find("error"); error != nullptr && !error->is_null()) {
        RpcError failure;
        QUERN_TRY(const std::int64_t code, error->get_i64("code"));
        QUERN_TRY(const std::string_view message, error->get_string("message"));
        failure.code = static_cast<int>(code);
        failure.message = std::string(message);
        if (const json::Value* data = error->find("data")) failure.data = *data;
        return Result(tl::unexpected<RpcError>(std::move(failure)));
    }
    const json::Value* result = answer.find("result");
    if (result == nullptr) return fail("rpc.bad_answer", "neither result nor error");
    return Result(*result);
}

}  // namespace

Client::Client(std::string host, std::uint16_t port, http::ClientOptions options)
    : http_(std::move(host), port, options) {}

void Client::set_cookie(std::string_view cookie) { authorization_ = basic_authorization(cookie); }

void Client::authorize(http::Request& request) const {
    if (!authorization_.empty()) request.headers.push_back({"Authorization", authorization_});
}

Expected<json::Value> Client::post(const json::Value& document) {
    http::Request request;
    request.method = "POST";
    request.headers.push_back({"Content-Type", "application/json"});
    authorize(request);
    request.body = document.dump();
    QUERN_TRY(http::Response response, http_.send(request));
    if (response.status == kUnauthorized && !authorization_.empty()) {
        // Another node's cookie, or an old one: what needs none shall go on, what needs one says so.
        authorization_.clear();
        request.headers.pop_back();
        QUERN_TRY(response, http_.send(request));
    }
    if (response.status != kOk)
        return fail("rpc.refused",
                    "status " + std::to_string(response.status) + " " + response.body.substr(0, kShownBody));
    json::Limits limits;
    limits.max_bytes = kMaxAnswerBytes;
    return json::parse(response.body, limits);
}

Expected<Result> Client::call(std::string_view method, json::Value params) {
    QUERN_TRY(const json::Value answer, post(request_json(next_id_++, method, std::move(params))));
    return read_answer(answer);
}

Expected<std::vector<Result>> Client::batch(const std::vector<Request>& requests) {
    const std::uint64_t first = next_id_;
    json::Array document;
    for (const Request& request : requests)
        document.push_back(request_json(next_id_++, request.method, request.params));
    QUERN_TRY(const json::Value answers, post(std::move(document)));
    if (!answers.is_array() || answers.size() != requests.size())
        return fail("rpc.bad_answer", "not one answer to each call of the batch");
    std::vector<std::optional<Result>> found(requests.size());
    for (const json::Value& answer : answers.items()) {
        QUERN_TRY(const std::uint64_t id, answer.get_u64("id"));
        if (id < first || id - first >= found.size()) return fail("rpc.bad_answer", "an id that was not asked for");
        QUERN_TRY(Result result, read_answer(answer));
        found[id - first] = std::move(result);
    }
    std::vector<Result> results;
    for (auto& result : found) {
        if (!result) return fail("rpc.bad_answer", "a call of the batch has no answer");
        results.push_back(std::move(*result));
    }
    return results;
}

Status Client::get_content(const Hash32& id, const http::Sink& sink) {
    http::Request request;
    request.target = content_target(id);
    authorize(request);
    QUERN_TRY(const http::Response response, http_.download(request, sink));
    if (response.status != kOk) return fail(content_error(response));
    return {};
}

Expected<std::uint64_t> Client::content_size(const Hash32& id) {
    http::Request request;
    request.method = "HEAD";
    request.target = content_target(id);
    authorize(request);
    QUERN_TRY(const http::Response response, http_.send(request));
    if (response.status != kOk) return fail(content_error(response));
    const std::string_view text = response.header("Content-Length");
    std::uint64_t size = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (text.empty() || code != std::errc() || stop != text.data() + text.size())
        return fail("content.refused", "no Content-Length");
    return size;
}

Status Client::put_content(const Hash32& id, std::uint64_t size, const http::Source& source) {
    http::Request request;
    request.method = "PUT";
    request.target = content_target(id);
    QUERN_TRY(const http::Response response, http_.upload(request, size, source));
    if (!response.ok()) return fail(content_error(response));
    return {};
}

Expected<crypto::ContentShards> Client::get_shards(const Hash32& id) {
    http::Request request;
    request.target = shards_target(id);
    authorize(request);
    Bytes bytes;
    QUERN_TRY(const http::Response response, http_.download(request, [&](BytesView piece) -> Status {
        if (bytes.size() + piece.size() > crypto::kMaxShardListBytes) return fail("content.too_large", to_hex0x(id));
        append(bytes, piece);
        return {};
    }));
    if (response.status != kOk) return fail(content_error(response));
    auto list = crypto::decode_content_shards(bytes);
    if (!list || list->id() != id) return fail("content.id_mismatch", "the node sent another list of shards");
    return list;
}

Status Client::put_shards(const crypto::ContentShards& list) {
    http::Request request;
    request.method = "PUT";
    request.target = shards_target(list.id());
    const Bytes bytes = encode(list);
    std::size_t sent = 0;
    const http::Source source = [&](std::span<std::uint8_t> target) -> Expected<std::size_t> {
        const std::size_t part = std::min(target.size(), bytes.size() - sent);
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(sent), part, target.begin());
        sent += part;
        return part;
    };
    QUERN_TRY(const http::Response response, http_.upload(request, bytes.size(), source));
    if (!response.ok()) return fail(content_error(response));
    return {};
}

}  // namespace quern::rpc

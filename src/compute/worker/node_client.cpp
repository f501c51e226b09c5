#include "compute/worker/node_client.h"

#include <algorithm>
#include <chrono>

#include "base/base64.h"
#include "base/big_endian.h"
#include "base/fs.h"
#include "base/log.h"
#include "chain/api/content_gateway.h"
#include "chain/params/parameters.h"
#include "chain/types/event_reader.h"
#include "chain/types/json_codec.h"
#include "chain/types/native_kinds.h"
#include "chain/types/probe_event.h"
#include "compute/worker/live_tasks.h"
#include "crypto/content_id.h"

namespace quern::compute::worker {
namespace {

using chain::types::Address;
using chain::types::TaskClaim;

constexpr std::uint64_t kPage = 16;  // tasks asked for at a time: a page of the largest stays far below the limit
constexpr std::size_t kMaxTaskListBytes = std::size_t{256} << 20;  // of all pages: more is no list of live tasks
constexpr std::uint64_t kMaxPageBytes = 64U << 20;                 // of a page of tasks
constexpr std::size_t kContentsAtOnce = 4'096;                     // as admin_*Contents take them
constexpr unsigned kOk = 200;
constexpr unsigned kPartialContent = 206;
constexpr unsigned kUnauthorized = 401;
constexpr unsigned kNotFound = 404;
constexpr unsigned kUnavailable = 503;
constexpr std::size_t kMaxCredentials = 4096;

constexpr std::uint64_t kSizeBytes = 8;  // before the leaves

std::string content_path(const Hash32& id) { return "/content/" + to_hex(id); }

// For which the node fetches nothing that is larger.
http::Request request_for(const Hash32& id, std::uint64_t max_bytes) {
    http::Request request;
    request.target = content_path(id);
    request.headers.push_back({std::string(chain::api::kMaxBytesHeader), std::to_string(max_bytes)});
    return request;
}

// Why the node has no content now: it fetches it, or it has too much else to do.
std::string_view unavailable(const std::string& body) {
    if (const auto answer = json::parse(body))
        if (const auto name = answer->get_string("error"); name && *name == chain::api::kContentOnItsWay)
            return chain::api::kContentOnItsWay;
    return kContentBusy;
}

// The node did not answer, or with nonsense: nothing was learnt about what was asked for.
template <class T>
Expected<T> reached(Expected<T> answer) {
    if (answer) return answer;
    return busy(answer.error().name, answer.error().detail);
}
template <class T>
Expected<T> understood(Expected<T> answer) {
    if (answer) return answer;
    return busy(kBadAnswer, answer.error().to_string());
}

Expected<Uint256> quantity(const json::Value& value) {
    QUERN_TRY(const std::string_view text, understood(value.as_string()));
    return understood(Uint256::from_hex_quantity(text));
}

Expected<std::uint64_t> small_quantity(const json::Value& value) {
    QUERN_TRY(const Uint256 number, quantity(value));
    if (!number.fits_u64()) return busy(kBadAnswer, "number out of range");
    return number.low_u64();
}

Status read_claim(const json::Value& value, TaskClaim& live) {
    QUERN_CHECK(chain::types::from_json(value, live.claim));
    QUERN_TRY(const json::Value* const custody, value.get("custody"));
    QUERN_CHECK(read_custody(*custody, live));
    QUERN_TRY(const json::Value* const reports, value.get("reports"));
    return read_reports(*reports, live);
}

// Of a task once, or twice when two claims of it are unsettled.
Expected<std::vector<TaskClaim>> read_task(const json::Value& value) {
    std::vector<TaskClaim> claims(1);
    TaskClaim& live = claims.front();
    QUERN_CHECK(chain::types::from_json(value, live.task));
    if (const json::Value* claim = value.find("claim"); claim != nullptr && !claim->is_null())
        QUERN_CHECK(read_claim(*claim, live));
    if (live.claim.state == chain::types::ClaimState::none) live.claim = {};
    QUERN_CHECK(check_claim(live));
    if (!chain::types::next_claim(live.task)) return claims;
    TaskClaim next{live.task, {}, {}, {}};
    QUERN_TRY(const json::Value* const claim, value.get("nextClaim"));
    QUERN_CHECK(read_claim(*claim, next));
    QUERN_CHECK(check_next(next));
    claims.push_back(std::move(next));
    return claims;
}

Expected<std::vector<std::uint64_t>> read_ids(const json::Value& list, std::string_view name) {
    QUERN_TRY(const auto items, list.get_array(name));
    std::vector<std::uint64_t> ids;
    ids.reserve(items.size());
    for (const json::Value& item : items) {
        QUERN_TRY(const std::uint64_t id, item.as_u64());
        ids.push_back(id);
    }
    return ids;
}

Expected<chain::types::Log> read_log(const json::Value& value) {
    chain::types::Log log;
    QUERN_TRY(const std::string_view address, value.get_string("address"));
    QUERN_TRY(log.address, fixed_from_hex<Address::kSize>(address));
    QUERN_TRY(const auto topics, value.get_array("topics"));
    for (const json::Value& topic : topics) {
        QUERN_TRY(const std::string_view text, topic.as_string());
        QUERN_TRY(const Hash32 word, fixed_from_hex<Hash32::kSize>(text));
        log.topics.push_back(word);
    }
    QUERN_TRY(const std::string_view data, value.get_string("data"));
    QUERN_TRY(log.data, from_hex(data));
    return log;
}

// An absent one is null.
Expected<json::Value> read_fields(const json::Value& task, std::string_view name) {
    const json::Value* fields = task.find(name);
    if (fields == nullptr || fields->is_null()) return json::Value();
    QUERN_CHECK(fields->as_object());
    return *fields;
}

}  // namespace

Expected<MarketNews> read_news(const json::Value& value) {
    MarketNews news;
    QUERN_TRY(news.head.height, value.get_u64("block"));
    QUERN_TRY(const std::string_view hash, value.get_string("hash"));
    QUERN_TRY(news.head.hash, fixed_from_hex<Hash32::kSize>(hash));
    QUERN_TRY(news.head.market_ms, value.get_u64("marketMs"));
    QUERN_TRY(const json::Value* changes, value.get("changes"));
    if (changes->is_null()) return news;
    news.complete = true;
    QUERN_TRY(const auto tasks, changes->get_array("tasks"));
    news.tasks.reserve(tasks.size());
    for (const json::Value& item : tasks) {
        TaskNews& task = news.tasks.emplace_back();
        QUERN_TRY(task.id, item.get_u64("id"));
        QUERN_TRY(task.task, read_fields(item, "task"));
        QUERN_TRY(task.claim, read_fields(item, "claim"));
        QUERN_TRY(task.next, read_fields(item, "nextClaim"));
    }
    QUERN_TRY(news.ended, read_ids(*changes, "ended"));
    QUERN_TRY(news.disputes, read_ids(*changes, "disputes"));
    return news;
}

NodeClient::NodeClient(std::string host, std::uint16_t port, std::string credentials_file, const Options& options)
    : host_(std::move(host)),
      port_(port),
      options_(options),
      http_(host_, port, options.http),
      credentials_file_(std::move(credentials_file)) {}

std::unique_ptr<NodeView> NodeClient::another() const {
    return std::make_unique<NodeClient>(host_, port_, credentials_file_, options_);
}

bool NodeClient::read_credentials() {
    if (credentials_file_.empty()) return false;
    auto text = fs::read_text_file(credentials_file_, kMaxCredentials);
    if (!text) {
        log::warning(log::Category::worker, "no credentials for the node file={} reason={}", credentials_file_,
                     text.error().to_string());
        return false;
    }
    while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
    authorization_ = "Basic " + base64(*text);
    return true;
}

template <class Send>
Expected<http::Response> NodeClient::with_credentials(http::Request& request, Send&& send) {
    if (authorization_.empty()) (void)read_credentials();
    if (authorization_.empty()) return send(request);
    request.headers.push_back({"Authorization", authorization_});
    auto response = send(request);
    // A node makes a new cookie at each start.
    if (!response || response->status != kUnauthorized || !read_credentials()) return response;
    request.headers.back().value = authorization_;
    return send(request);
}

Expected<json::Value> NodeClient::call(std::string_view method, json::Value params, std::uint64_t max_bytes) {
    return call_as(As::anybody, method, std::move(params), max_bytes);
}

Expected<json::Value> NodeClient::call_as(As who, std::string_view method, json::Value params,
                                          std::uint64_t max_bytes) {
    json::Value request = json::Value::object(
        {{"jsonrpc", "2.0"}, {"id", next_id_++}, {"method", method}, {"params", std::move(params)}});
    http::Request message;
    message.method = "POST";
    message.headers.push_back({"Content-Type", "application/json"});
    message.body = request.dump();
    message.max_answer_bytes = max_bytes;
    const auto send = [this](const http::Request& request) { return http_.send(request); };
    QUERN_TRY(const http::Response response,
              reached(who == As::owner ? with_credentials(message, send) : send(message)));
    answer_bytes_ = response.body.size();
    json::Limits limits;
    limits.max_bytes = max_bytes;
    QUERN_TRY(json::Value answer, understood(json::parse(response.body, limits)));
    if (const json::Value* error = answer.find("error"); error != nullptr && !error->is_null()) {
        const auto text = error->get_string("message");
        return fail("node.rpc_error", text ? std::string(*text) : error->dump());
    }
    const json::Value* result = answer.find("result");
    if (result == nullptr) return busy(kBadAnswer, "neither result nor error");
    return *result;
}

Expected<std::uint64_t> NodeClient::chain_id() {
    QUERN_TRY(const json::Value value, call("eth_chainId", json::Value::array()));
    return small_quantity(value);
}

Expected<MarketNews> NodeClient::market_news(const std::optional<Head>& since) {
    json::Value params = json::Value::array();
    if (since) params = json::Value::array({since->height, to_hex0x(since->hash)});
    QUERN_TRY(const json::Value value, call("task_changes", std::move(params), kMaxPageBytes));
    auto news = understood(read_news(value));
    if (news) news->bytes = answer_bytes_;
    return news;
}

Expected<Uint256> NodeClient::gas_price() {
    QUERN_TRY(const json::Value value, call("eth_gasPrice", json::Value::array()));
    return quantity(value);
}

Expected<Uint256> NodeClient::tip() {
    QUERN_TRY(const json::Value value, call("eth_maxPriorityFeePerGas", json::Value::array()));
    return quantity(value);
}

Expected<std::uint64_t> NodeClient::pending_nonce(const Address& address) {
    QUERN_TRY(const json::Value value,
              call("eth_getTransactionCount", json::Value::array({to_hex0x(address), "pending"})));
    return small_quantity(value);
}

Expected<std::uint64_t> NodeClient::estimate_gas(const Address& from, const Address& to, BytesView data) {
    json::Value request =
        json::Value::object({{"from", to_hex0x(from)}, {"to", to_hex0x(to)}, {"data", to_hex0x(data)}});
    QUERN_TRY(const json::Value value, call("eth_estimateGas", json::Value::array({std::move(request)})));
    return small_quantity(value);
}

Expected<Hash32> NodeClient::send_raw(BytesView encoded) {
    QUERN_TRY(const json::Value value, call("eth_sendRawTransaction", json::Value::array({to_hex0x(encoded)})));
    QUERN_TRY(const std::string_view text, value.as_string());
    return fixed_from_hex<32>(text);
}

Expected<std::optional<TransactionOutcome>> NodeClient::outcome(const Hash32& transaction) {
    QUERN_TRY(const json::Value value, call("eth_getTransactionReceipt", json::Value::array({to_hex0x(transaction)})));
    if (value.is_null()) return std::optional<TransactionOutcome>{};
    TransactionOutcome result;
    QUERN_TRY(const std::string_view status, value.get_string("status"));
    result.success = status == "0x1";
    QUERN_TRY(const json::Value* block, value.get("blockNumber"));
    QUERN_TRY(result.block, small_quantity(*block));
    if (const json::Value* extra = value.find("quern"); extra != nullptr)
        if (const auto text = extra->get_string("failure")) result.failure = std::string(*text);
    return std::optional<TransactionOutcome>(std::move(result));
}

Expected<bool> NodeClient::knows(const Hash32& transaction) {
    QUERN_TRY(const json::Value value, call("eth_getTransactionByHash", json::Value::array({to_hex0x(transaction)})));
    return !value.is_null();
}

Expected<std::vector<TaskClaim>> NodeClient::live_tasks() {
    std::vector<TaskClaim> tasks;
    std::uint64_t start = 1;
    std::size_t bytes = 0;
    const auto began = std::chrono::steady_clock::now();
    for (;;) {
        json::Value params = json::Value::object({{"state", "live"}, {"start", start}, {"limit", kPage}});
        QUERN_TRY(const json::Value page, call("task_list", std::move(params), kMaxPageBytes));
        bytes += answer_bytes_;
        if (bytes > kMaxTaskListBytes) return busy(kBadAnswer, "too many tasks");
        if (std::chrono::steady_clock::now() - began > std::chrono::milliseconds(options_.list_ms))
            return busy("node.too_slow", "the list of live tasks");
        QUERN_TRY(const auto items, page.get_array("tasks"));
        for (const json::Value& item : items) {
            auto claims = read_task(item);
            if (!claims)
                log::warning(log::Category::worker, "unreadable task left out reason={}", claims.error().to_string());
            else
                std::move(claims->begin(), claims->end(), std::back_inserter(tasks));
        }
        const json::Value* next = page.find("next");
        if (next == nullptr || next->is_null()) return tasks;
        QUERN_TRY(const std::uint64_t after, next->as_u64());
        // Else the list would have no end.
        if (after <= start) return busy(kBadAnswer, "the next page is not a later one");
        start = after;
    }
}

Expected<chain::params::MarketParams> NodeClient::market_params() {
    QUERN_TRY(const json::Value answer, call("quern_params", json::Value::array()));
    return understood(chain::params::market_params_from_json(answer));
}

Expected<Uint256> NodeClient::watch_bonds() {
    QUERN_TRY(const json::Value supply, call("quern_supply", json::Value::array()));
    QUERN_TRY(const std::string_view bonded, understood(supply.get_string("watchBonds")));
    return understood(Uint256::from_hex_quantity(bonded));
}

Expected<std::optional<chain::types::RoleBond>> NodeClient::bond(chain::types::Role role,
                                                                 const chain::types::Address& address) {
    QUERN_TRY(const json::Value value, call("stake_roles", json::Value::array({to_hex0x(address)})));
    QUERN_TRY(const auto items, value.as_array());
    for (const json::Value& item : items) {
        QUERN_TRY(auto bond, chain::types::record_from_json<chain::types::RoleBond>(item));
        if (bond.role == role) return std::optional(std::move(bond));
    }
    return std::optional<chain::types::RoleBond>();
}

Expected<std::optional<chain::types::Task>> NodeClient::task(std::uint64_t id) {
    QUERN_TRY(const json::Value value, call("task_get", json::Value::array({id})));
    if (value.is_null()) return std::optional<chain::types::Task>();
    chain::types::Task task;
    QUERN_CHECK(understood(chain::types::from_json(value, task)));
    if (task.id != id) return busy(kBadAnswer, "another task than asked for");
    return std::optional(std::move(task));
}

Expected<DisputeNews> NodeClient::dispute(std::uint64_t id) {
    QUERN_TRY(const json::Value value, call("dispute_get", json::Value::array({id})));
    DisputeNews news;
    QUERN_CHECK(chain::types::from_json(value, news.dispute));
    if (const json::Value* const post = value.find("post"); post != nullptr && !post->is_null()) {
        QUERN_TRY(const std::string_view text, understood(post->as_string()));
        QUERN_TRY(news.post, understood(from_hex(text)));
    }
    return news;
}

Expected<std::vector<Hash32>> NodeClient::revealed_probes(const chain::types::VerifierReport& report) {
    using chain::types::ProbesRevealed;
    const std::string block = Uint256(report.revealed_at).to_hex_quantity();
    const auto event = chain::types::group_address(chain::types::KindGroup::verification);
    json::Value filter = json::Value::object({{"fromBlock", block}, {"toBlock", block}, {"address", to_hex0x(event)}});
    const Hash32 signature = chain::types::abi::signature_hash(chain::types::abi::event_signature<ProbesRevealed>());
    filter.set("topics", json::Value::array({to_hex0x(signature), to_hex0x(Uint256(report.claim.task).to_be32())}));
    QUERN_TRY(const json::Value logs, call("eth_getLogs", json::Value::array({std::move(filter)})));
    QUERN_TRY(const auto items, understood(logs.as_array()));
    for (const json::Value& item : items) {
        QUERN_TRY(const chain::types::Log log, understood(read_log(item)));
        auto revealed = chain::types::read_event<ProbesRevealed>(log);
        if (revealed && revealed->verifier == report.verifier && revealed->result_root == report.result_root)
            return std::move(revealed->probes);
    }
    return busy(kBadAnswer, "no log of the reveal");
}

Expected<Bytes> NodeClient::download(http::Request request, unsigned status, const Hash32& id,
                                     std::uint64_t max_bytes) {
    Bytes content;
    bool too_large = false;
    const http::Sink sink = [&](BytesView piece) -> Status {
        too_large = content.size() + piece.size() > max_bytes;
        if (too_large) return fail("content.too_large", to_hex(id));
        append(content, piece);
        return {};
    };
    auto downloaded = with_credentials(request, [&](const http::Request& authorized) {
        content.clear();
        return http_.download(authorized, sink);
    });
    if (too_large) return fail("content.too_large", to_hex(id));
    QUERN_TRY(const http::Response response, reached(std::move(downloaded)));
    if (response.status == kUnavailable) return busy(unavailable(response.body), to_hex(id));
    if (response.status == kNotFound) return fail(kContentNotFound, to_hex(id));
    if (response.status != status) return busy(kBadAnswer, "content status " + std::to_string(response.status));
    return content;
}

// One that nobody has whole may be there by shard.
Expected<Bytes> NodeClient::get_content(const Hash32& id, std::uint64_t max_bytes) {
    auto whole = get_whole(id, max_bytes);
    if (whole || !is_not_found(whole.error()) || max_bytes <= crypto::content_shard_bytes(options_.shard_level))
        return whole;
    QUERN_TRY(const crypto::ContentShards shards, content_shards(id, options_.shard_level));
    if (shards.size > max_bytes) return fail("content.too_large", to_hex(id));
    Bytes content;
    for (std::size_t i = 0; i < shards.tops.size(); ++i) {
        QUERN_TRY(const Bytes shard, get_whole(shards.id_of(i), shards.bytes_of(i)));
        append(content, shard);
    }
    return content;
}

Expected<crypto::ContentShards> NodeClient::content_shards(const Hash32& id, unsigned level) {
    http::Request request;
    request.target = content_path(id) + "/shards";
    QUERN_TRY(const Bytes bytes, download(std::move(request), kOk, id, crypto::kMaxShardListBytes));
    auto list = crypto::decode_content_shards(bytes, level);
    if (!list || list->id() != id) return busy(kIdMismatch, to_hex(id));
    return list;
}

Expected<Bytes> NodeClient::get_whole(const Hash32& id, std::uint64_t max_bytes) {
    http::Request request = request_for(id, max_bytes);
    QUERN_TRY(Bytes content, download(std::move(request), kOk, id, max_bytes));
    if (crypto::content_id_of(content) != id) return busy(kIdMismatch, to_hex(id));
    return content;
}

Expected<ContentLeaves> NodeClient::content_leaves(const Hash32& id, std::uint64_t max_bytes) {
    http::Request request = request_for(id, max_bytes);
    request.target += "/leaves";
    QUERN_TRY(const Bytes bytes, download(std::move(request), kOk, id,
                                          kSizeBytes + Hash32::kSize * crypto::content_leaf_count(max_bytes)));
    if (bytes.size() < kSizeBytes) return busy(kBadAnswer, "leaves of a content without its size");
    BytesView rest(bytes);
    ContentLeaves content;
    content.size = from_big_endian(rest.first(kSizeBytes));
    content.leaves.reserve(rest.size() / Hash32::kSize);
    for (rest = rest.subspan(kSizeBytes); rest.size() >= Hash32::kSize; rest = rest.subspan(Hash32::kSize))
        content.leaves.push_back(Hash32::copy_of(rest.first(Hash32::kSize)));
    if (!rest.empty() || content.leaves.size() != crypto::content_leaf_count(content.size) ||
        crypto::content_id_of_leaves(content.leaves, content.size) != id)
        return busy(kIdMismatch, to_hex(id));
    return content;
}

Expected<Bytes> NodeClient::read_content(const Hash32& id, std::uint64_t first, std::uint64_t length) {
    http::Request request;
    request.target = content_path(id);
    request.headers.push_back({"Range", "bytes=" + std::to_string(first) + "-" + std::to_string(first + length - 1)});
    auto bytes = download(std::move(request), kPartialContent, id, length);
    // More than was asked for is the node's fault, and no word about the content.
    if (bytes ? bytes->size() != length : !bytes.error().is_busy() && !is_not_found(bytes.error()))
        return busy(kBadAnswer, "another part of a content than asked for");
    return bytes;
}

// Without credentials, with which the node would ask others.
Expected<bool> NodeClient::has_content(const Hash32& id) {
    http::Request probe;
    probe.method = "HEAD";
    probe.target = content_path(id);
    QUERN_TRY(const http::Response known, reached(http_.send(probe)));
    return known.status == kOk;
}

Expected<std::vector<Hash32>> NodeClient::drop_contents(std::span<const Hash32> ids) {
    return contents_of("admin_dropContents", "held", ids);
}

Expected<std::set<Hash32>> NodeClient::want_contents(std::span<const Hash32> ids, std::uint64_t max_bytes) {
    const auto here = contents_of("admin_fetchContents", "here", ids, max_bytes);
    // A node that lets this worker say nothing has things itself, or has them not.
    if (!here && !here.error().is_busy()) return NodeView::want_contents(ids, max_bytes);
    QUERN_CHECK(here);
    return std::set<Hash32>(here->begin(), here->end());
}

// Tells `method` of the contents and gives those that it names in `field`.
Expected<std::vector<Hash32>> NodeClient::contents_of(std::string_view method, std::string_view field,
                                                      std::span<const Hash32> ids,
                                                      std::optional<std::uint64_t> max_bytes) {
    std::vector<Hash32> named;
    while (!ids.empty()) {
        json::Array list;
        const auto part = ids.first(std::min(ids.size(), kContentsAtOnce));
        for (const Hash32& id : part) list.push_back(to_hex0x(id));
        ids = ids.subspan(part.size());
        json::Array arguments{json::Value(std::move(list))};
        if (max_bytes) arguments.emplace_back(*max_bytes);
        json::Value params(std::move(arguments));
        QUERN_TRY(const json::Value answer, call_as(As::owner, method, std::move(params), kMaxAnswerBytes));
        QUERN_TRY(const auto items, understood(answer.get_array(field)));
        for (const json::Value& item : items) {
            QUERN_TRY(const std::string_view text, understood(item.as_string()));
            QUERN_TRY(const Hash32 id, understood(fixed_from_hex<Hash32::kSize>(text)));
            named.push_back(id);
        }
    }
    return named;
}

Status NodeClient::put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) {
    QUERN_TRY(const bool known, has_content(id));
    if (known) return {};
    return upload(content_path(id), size, source);
}

Status NodeClient::put_shards(const crypto::ContentShards& list) {
    const Bytes bytes = encode(list);
    std::size_t sent = 0;
    return upload(content_path(list.id()) + "/shards", bytes.size(),
                  [&](std::span<std::uint8_t> target) -> Expected<std::size_t> {
                      const std::size_t part = std::min(target.size(), bytes.size() - sent);
                      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(sent), part, target.begin());
                      sent += part;
                      return part;
                  });
}

Status NodeClient::upload(const std::string& target, std::uint64_t size, const ByteSource& source) {
    http::Request request;
    request.method = "PUT";
    request.target = target;
    QUERN_TRY(const http::Response response, reached(http_.upload(request, size, source)));
    if (!response.ok())
        return fail("content.upload_refused", std::to_string(response.status) + " " + response.body.substr(0, 200));
    return {};
}

}  // namespace quern::compute::worker

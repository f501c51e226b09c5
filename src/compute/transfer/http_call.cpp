#include "compute/transfer/http_call.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "crypto/hash.h"

namespace quern::compute::transfer {
namespace {

constexpr std::size_t kMaxHeaderBytes = 64U << 10;    // of all responses of a call
constexpr std::uint64_t kMaxSkippedBytes = 1U << 20;  // of a response's body that nobody takes: a redirect's
constexpr std::uint64_t kMsPerSecond = 1'000;

template <class Number>
std::optional<Number> number_of(std::string_view text) {
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

struct HeaderList {
    HeaderList() = default;
    HeaderList(const HeaderList&) = delete;
    HeaderList& operator=(const HeaderList&) = delete;
    ~HeaderList() { curl_slist_free_all(list); }
    bool add(const std::string& line) {
        curl_slist* const longer = curl_slist_append(list, line.c_str());
        if (longer != nullptr) list = longer;
        return longer != nullptr;
    }
    curl_slist* list = nullptr;
};

struct CloseHandle {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

// A call under way: what libcurl's callbacks are given.
class Exchange {
public:
    Exchange(const HttpCall& call, const TransferOptions& options, const Cancellation* cancellation)
        : call_(call), options_(options), cancellation_(cancellation) {}

    Expected<ResponseHead> run() {
        handle_.reset(curl_easy_init());
        if (handle_ == nullptr || !set_all()) return fault(kSetup, curl_easy_strerror(refused_));
        const CURLcode code = curl_easy_perform(handle_.get());
        if (failed_) return fail(*failed_);
        if (forbidden_) return fail(kForbiddenAddress, call_.shown);
        if (code != CURLE_OK) return why(code);
        QUERN_CHECK(begin_body());  // there was none
        return head_;
    }

private:
    template <class Value>
    void set(CURLoption option, Value value) {
        const CURLcode code = curl_easy_setopt(handle_.get(), option, value);
        if (code != CURLE_OK) refused_ = code;
    }

    bool set_all() {
        const TransferLimits& limits = options_.limits;
        const bool secure = call_.url.starts_with("https://");
        set(CURLOPT_URL, call_.url.c_str());
        set(CURLOPT_PROTOCOLS_STR, secure ? "https" : "http");
        set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
        set(CURLOPT_FOLLOWLOCATION, call_.redirects ? 1L : 0L);
        set(CURLOPT_MAXREDIRS, static_cast<long>(limits.redirects));
        set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
        set(CURLOPT_HTTP09_ALLOWED, 0L);
        set(CURLOPT_PATH_AS_IS, 1L);
        set(CURLOPT_PROXY, "");  // else the environment's
        set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
        set(CURLOPT_NOSIGNAL, 1L);
        set(CURLOPT_SSL_VERIFYPEER, 1L);
        set(CURLOPT_SSL_VERIFYHOST, 2L);
        set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
        if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
        set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits.connect_ms));
        set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(limits.least_bytes_per_second));
        set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(limits.patience_s));
        // Whoever is faster now and slower then has no more than this in all.
        const std::uint64_t bytes = std::max(call_.most_bytes, call_.upload_bytes);
        const std::uint64_t seconds =
            2 * limits.patience_s + bytes / std::max<std::uint64_t>(limits.least_bytes_per_second, 1);
        set(CURLOPT_TIMEOUT_MS, static_cast<long>(limits.connect_ms + seconds * kMsPerSecond));
        set(CURLOPT_USERAGENT, "quern");
        if (call_.from > 0) set(CURLOPT_RANGE, std::string(std::to_string(call_.from) + "-").c_str());
        set(CURLOPT_OPENSOCKETFUNCTION, &Exchange::open_socket);
        set(CURLOPT_OPENSOCKETDATA, this);
        set(CURLOPT_HEADERFUNCTION, &Exchange::take_header);
        set(CURLOPT_HEADERDATA, this);
        set(CURLOPT_WRITEFUNCTION, &Exchange::take_body);
        set(CURLOPT_WRITEDATA, this);
        set(CURLOPT_XFERINFOFUNCTION, &Exchange::look);
        set(CURLOPT_XFERINFODATA, this);
        set(CURLOPT_NOPROGRESS, 0L);
        if (call_.upload) {
            set(CURLOPT_UPLOAD, 1L);
            set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(call_.upload_bytes));
            set(CURLOPT_READFUNCTION, &Exchange::give_body);
            set(CURLOPT_READDATA, this);
        }
        return sign() && refused_ == CURLE_OK;
    }

    // AWS Signature Version 4, by libcurl. The hash of the body is named, so that the server checks what came.
    bool sign() {
        if (call_.sign == nullptr || call_.sign->key_id.empty()) return true;
        set(CURLOPT_AWS_SIGV4, std::string("aws:amz:" + call_.sign->region + ":s3").c_str());
        set(CURLOPT_USERNAME, call_.sign->key_id.c_str());
        set(CURLOPT_PASSWORD, call_.sign->secret.c_str());
        const Hash32 hash = call_.upload ? call_.upload_hash : crypto::sha256(BytesView());
        bool whole = headers_.add("x-amz-content-sha256: " + to_hex(hash));
        if (!call_.sign->session_token.empty())
            whole = headers_.add("x-amz-security-token: " + call_.sign->session_token) && whole;
        set(CURLOPT_HTTPHEADER, headers_.list);
        return whole;
    }

    // The address is the one that is connected next, whatever a name resolved to before or will resolve to.
    static curl_socket_t open_socket(void* data, curlsocktype, curl_sockaddr* address) {
        auto& self = *static_cast<Exchange*>(data);
        const BytesView bytes(reinterpret_cast<const std::uint8_t*>(&address->addr), address->addrlen);
        if (!is_allowed(bytes, self.call_.addresses)) {
            self.forbidden_ = true;
            return CURL_SOCKET_BAD;
        }
        self.forbidden_ = false;  // of a name's several addresses one may be allowed
        return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    }

    static std::size_t take_header(char* text, std::size_t size, std::size_t count, void* data) {
        return static_cast<Exchange*>(data)->header({text, size * count}) ? size * count : 0;
    }
    static std::size_t take_body(char* text, std::size_t size, std::size_t count, void* data) {
        return static_cast<Exchange*>(data)->body(as_bytes({text, size * count})) ? size * count : 0;
    }
    static std::size_t give_body(char* text, std::size_t size, std::size_t count, void* data) {
        return static_cast<Exchange*>(data)->give({reinterpret_cast<std::uint8_t*>(text), size * count});
    }
    static int look(void* data, curl_off_t, curl_off_t received, curl_off_t, curl_off_t) {
        auto& self = *static_cast<Exchange*>(data);
        // Before a response whose body is taken all bodies are skipped.
        if (!self.begun_ && received > static_cast<curl_off_t>(kMaxSkippedBytes))
            return self.failed({kBadRedirect, self.call_.shown + ": with a body without end", {}}) ? 0 : 1;
        return is_requested(self.cancellation_) ? 1 : 0;
    }

    bool failed(Error error) {
        if (!failed_) failed_ = std::move(error);
        return false;
    }

    bool header(std::string_view line) {
        header_bytes_ += line.size();
        if (header_bytes_ > kMaxHeaderBytes) return failed({kBadHeader, call_.shown + ": too long", {}});
        while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
        if (line.starts_with("HTTP/")) {  // of a response; the last one counts
            head_ = {};
            const std::size_t space = std::min(line.find(' '), line.size());
            head_.status = number_of<unsigned>(line.substr(std::min(space + 1, line.size())).substr(0, 3)).value_or(0);
            return true;
        }
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) return true;
        const std::string key = lower(line.substr(0, colon));
        std::string_view value = line.substr(colon + 1);
        while (value.starts_with(' ')) value.remove_prefix(1);
        if (key == "content-length") head_.length = number_of<std::uint64_t>(value);
        if (key == "content-range") head_.range = parse_content_range(value);
        return true;
    }

    Status begin_body() {
        if (begun_) return {};
        begun_ = true;
        return call_.on_head ? call_.on_head(head_) : Status();
    }
    bool body(BytesView piece) {
        Status taken = begin_body();
        if (taken && call_.on_body) taken = call_.on_body(piece);
        return taken || failed(taken.error());
    }
    std::size_t give(std::span<std::uint8_t> target) {
        const std::uint64_t left = call_.upload_bytes - given_;
        if (left == 0) return 0;
        const auto piece =
            call_.upload(target.first(static_cast<std::size_t>(std::min<std::uint64_t>(target.size(), left))));
        if (!piece) failed(piece.error());
        if (!piece || *piece == 0) return CURL_READFUNC_ABORT;
        given_ += *piece;
        return *piece;
    }

    tl::unexpected<Error> why(CURLcode code) const {
        const std::string detail = call_.shown + ": " + curl_easy_strerror(code);
        switch (code) {
            case CURLE_COULDNT_RESOLVE_HOST:
            case CURLE_COULDNT_CONNECT:
                return busy(kConnectFailed, detail);
            case CURLE_OPERATION_TIMEDOUT:
                return busy(kTooSlow, detail);
            case CURLE_ABORTED_BY_CALLBACK:
                return busy(is_requested(cancellation_) ? kStopped : kBroken, detail);
            case CURLE_TOO_MANY_REDIRECTS:
            case CURLE_UNSUPPORTED_PROTOCOL:
                return fail(kBadRedirect, detail);
            case CURLE_PEER_FAILED_VERIFICATION:
            case CURLE_SSL_CONNECT_ERROR:
            case CURLE_SSL_CACERT_BADFILE:
                return fail(kTlsFailed, detail);
            case CURLE_WEIRD_SERVER_REPLY:
            case CURLE_BAD_CONTENT_ENCODING:
            case CURLE_URL_MALFORMAT:
                return fail(kBadHeader, detail);
            case CURLE_UNKNOWN_OPTION:
            case CURLE_NOT_BUILT_IN:
            case CURLE_OUT_OF_MEMORY:
            case CURLE_FAILED_INIT:
                return fault(kSetup, detail);
            default:
                return busy(kBroken, detail);
        }
    }

    const HttpCall& call_;
    const TransferOptions& options_;
    const Cancellation* const cancellation_;
    std::unique_ptr<CURL, CloseHandle> handle_;
    HeaderList headers_;
    CURLcode refused_ = CURLE_OK;
    ResponseHead head_;
    std::size_t header_bytes_ = 0;
    std::uint64_t given_ = 0;
    bool begun_ = false;
    bool forbidden_ = false;
    std::optional<Error> failed_;
};

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
    constexpr std::string_view kUnit = "bytes ";
    if (!text.starts_with(kUnit)) return std::nullopt;
    text.remove_prefix(kUnit.size());
    const std::size_t dash = text.find('-');
    const std::size_t slash = text.find('/');
    if (dash == std::string::npos || slash == std::string::npos || dash > slash) return std::nullopt;
    const auto first = number_of<std::uint64_t>(text.substr(0, dash));
    const auto last = number_of<std::uint64_t>(text.substr(dash + 1, slash - dash - 1));
    if (!first || !last || *first > *last) return std::nullopt;
    ContentRange range{*first, *last, {}};
    if (text.substr(slash + 1) == "*") return range;
    range.total = number_of<std::uint64_t>(text.substr(slash + 1));
    if (!range.total || *range.total <= *last) return std::nullopt;
    return range;
}

Expected<ResponseHead> perform(const HttpCall& call, const TransferOptions& options, const Cancellation* cancellation) {
    static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (kReady != CURLE_OK) return fault(kSetup, curl_easy_strerror(kReady));
    return Exchange(call, options, cancellation).run();
}

}  // namespace quern::compute::transfer

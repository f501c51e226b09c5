#include "compute/transfer/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace quern::compute::transfer {
namespace {

std::string web_url(const SourceUri& uri) {
    std::string url = uri.shown();
    if (!uri.query.empty()) url += "?" + uri.query;
    return url;
}

// In the path: a bucket's name with dots is none that a certificate has.
Place s3_place(const SourceUri& uri, const S3Access& s3) {
    const std::string endpoint = s3.endpoint.empty() ? "https://s3." + s3.region + ".amazonaws.com" : s3.endpoint;
    return {uri.shown(), endpoint + "/" + uri.authority + encode_path(uri.path), {}, AddressRule::any, false, true};
}

bool is_this_machine(const std::string& host) {
    return host == "localhost" || host == "[::1]" ||
           (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

// The file behind a descriptor: nothing that is renamed or linked meanwhile leads elsewhere.
std::optional<std::string> path_of(int descriptor) {
    std::error_code problem;
    const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), problem);
    if (problem) return std::nullopt;
    return path.string();
}

bool is_within(const std::string& path, const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) {
        std::error_code problem;
        std::string root = std::filesystem::canonical(directory, problem).string();
        if (problem) continue;
        if (!root.ends_with('/')) root += '/';
        if (path.starts_with(root)) return true;
    }
    return false;
}

Status check_file(int descriptor, const std::string& path, const std::vector<std::string>& directories) {
    struct stat info {};
    if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return fail("transfer.not_a_file", path);
    const auto real = path_of(descriptor);
    if (!real || !is_within(*real, directories)) return fail("transfer.outside_directories", path);
    return {};
}

}  // namespace

Expected<Place> source_place(const SourceUri& uri, const TransferOptions& options) {
    // Plain HTTP to this machine alone is no more than what private addresses allow already.
    const bool local_http = uri.scheme == Scheme::http && options.private_addresses;
    if (!options.schemes.contains(uri.scheme) && !local_http)
        return fail("transfer.scheme_not_allowed", std::string(name(uri.scheme)));
    const AddressRule rule = options.private_addresses ? AddressRule::any : AddressRule::open_internet;
    switch (uri.scheme) {
        case Scheme::https:
            return Place{uri.shown(), web_url(uri), {}, rule, true, false};
        case Scheme::http:
            return Place{uri.shown(), web_url(uri),
                         {},          options.schemes.contains(Scheme::http) ? rule : AddressRule::loopback,
                         true,        false};
        case Scheme::s3:
            return s3_place(uri, options.s3);
        case Scheme::ipfs:
            if (options.ipfs_gateway.empty()) return fail("transfer.no_gateway", uri.shown());
            return Place{uri.shown(), options.ipfs_gateway + "/ipfs/" + uri.authority + encode_path(uri.path),
                         {},          AddressRule::any,
                         false,       false};
        case Scheme::file:
            return Place{uri.shown(), {}, uri.path, AddressRule::any, false, false};
    }
    return fail("transfer.scheme_not_allowed", uri.shown());
}

Expected<Place> target_place(const SourceUri& uri, const TransferOptions& options) {
    switch (uri.scheme) {
        case Scheme::s3:
            return s3_place(uri, options.s3);
        case Scheme::http:
            if (!is_this_machine(uri.authority)) return fail("transfer.insecure", uri.shown() + ": use https");
            return Place{uri.shown(), web_url(uri), {}, AddressRule::loopback, false, false};
        case Scheme::https:
            return Place{uri.shown(), web_url(uri), {}, AddressRule::any, false, false};
        case Scheme::ipfs:
        case Scheme::file:
            break;
    }
    return fail("transfer.not_writable", uri.shown() + ": an output is s3:// or https://");
}

Expected<int> open_within(const std::string& path, const std::vector<std::string>& directories) {
    // Nothing is opened that lies elsewhere, be it a device or a pipe.
    std::error_code problem;
    const auto real = std::filesystem::canonical(path, problem);
    if (problem || !is_within(real.string(), directories)) return fail("transfer.outside_directories", path);
    const int descriptor = ::open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) {
        const int code = errno;
        return fail("fs.cannot_open", path + ": " + std::generic_category().message(code));
    }
    if (const Status fit = check_file(descriptor, path, directories); !fit) {
        ::close(descriptor);
        return fail(fit.error());
    }
    return descriptor;
}

}  // namespace quern::compute::transfer

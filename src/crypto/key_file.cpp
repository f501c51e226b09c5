#include "crypto/key_file.h"

#include <openssl/crypto.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "crypto/keystore.h"

namespace quern::crypto {
namespace {

constexpr std::size_t kMaxPasswordBytes = 4096;

Status check_permissions(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return {};  // reading it will name the error
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return fail("key_file.permissions", path + " can be read by others: chmod 600 " + path);
    return {};
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find_first_of("\r\n")); }

bool is_keystore(std::string_view text) { return text.find('{') != std::string_view::npos; }

Expected<std::string> read_key_file(const std::string& path) {
    QUERN_CHECK(check_permissions(path));
    return fs::read_text_file(path, kMaxKeystoreBytes);
}

Expected<PrivateKey> decrypt(const std::string& path, std::string_view text, std::string_view password) {
    auto key = decrypt_key(text, password);
    if (key) return key;
    const std::string& detail = key.error().detail;
    return detailed(key.error(), path + (detail.empty() ? "" : ": " + detail));
}

}  // namespace

Expected<std::string> read_password_file(const std::string& path) {
    QUERN_CHECK(check_permissions(path));
    QUERN_TRY(std::string text, fs::read_text_file(path, kMaxPasswordBytes));
    std::string password(first_line(text));
    OPENSSL_cleanse(text.data(), text.size());
    return password;
}

Expected<bool> needs_password(const std::string& path) {
    QUERN_TRY(std::string text, read_key_file(path));
    const bool locked = is_keystore(text);
    OPENSSL_cleanse(text.data(), text.size());
    return locked;
}

Expected<PrivateKey> open_keystore(const std::string& path, std::string_view password) {
    QUERN_TRY(const std::string text, read_key_file(path));
    return decrypt(path, text, password);
}

Expected<PrivateKey> load_key_file(const std::string& path, const std::string& password_file) {
    QUERN_TRY(std::string text, read_key_file(path));
    if (is_keystore(text)) {
        if (password_file.empty())
            return fail("key_file.password_needed", path + " is a keystore: give the file with its password");
        QUERN_TRY(std::string password, read_password_file(password_file));
        auto key = decrypt(path, text, password);
        OPENSSL_cleanse(password.data(), password.size());
        return key;
    }
    auto bytes = from_hex(first_line(text));
    OPENSSL_cleanse(text.data(), text.size());
    if (!bytes) return fail("key_file.not_a_key", path + " holds neither a keystore nor a hexadecimal key");
    auto key = PrivateKey::from_bytes(*bytes);
    OPENSSL_cleanse(bytes->data(), bytes->size());
    if (!key) return detailed(key.error(), path + ": " + key.error().detail);
    return key;
}

}  // namespace quern::crypto

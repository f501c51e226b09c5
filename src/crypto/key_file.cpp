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
        return fail("key_file.permissions", path + " can be read by others; chmod 600 it");
    return {};
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find_first_of("\r\n")); }

}  // namespace

Expected<PrivateKey> load_key_file(const std::string& path, const std::string& password_file) {
    QUERN_CHECK(check_permissions(path));
    QUERN_TRY(std::string text, fs::read_text_file(path, kMaxKeystoreBytes));
    if (text.find('{') != std::string::npos) {
        if (password_file.empty())
            return fail("key_file.password_needed", path + " is a keystore: give its password file");
        QUERN_CHECK(check_permissions(password_file));
        QUERN_TRY(std::string password, fs::read_text_file(password_file, kMaxPasswordBytes));
        auto key = decrypt_key(std::string_view(text), first_line(password));
        OPENSSL_cleanse(password.data(), password.size());
        return key;
    }
    auto bytes = from_hex(first_line(text));
    OPENSSL_cleanse(text.data(), text.size());
    if (!bytes) return fail("key_file.not_a_key", path + " holds neither a keystore nor a hexadecimal key");
    auto key = PrivateKey::from_bytes(*bytes);
    OPENSSL_cleanse(bytes->data(), bytes->size());
    return key;
}

}  // namespace quern::crypto

#include "crypto/sha256_batch.h"

#ifdef QUERN_HAVE_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

#include <cstdlib>
#include <memory>

namespace quern::crypto {
namespace {

#ifdef QUERN_HAVE_IPSEC_MB
// Fewer messages than this are quicker one by one, whatever the CPU: lanes that are empty take as long as full ones.
constexpr std::size_t kFewMessages = 12;

// The library fails here only when memory has run out or a job is malformed; there is no way on from either.
void require(bool ok) {
    if (!ok) std::abort();
}

class Lanes {
public:
    Lanes() : manager_(alloc_mb_mgr(0)) {
        require(manager_ != nullptr);
        init_mb_mgr_auto(manager_.get(), &architecture_);
        require(imb_get_errno(manager_.get()) == 0);
    }

    void hash(std::span<const BytesView> messages, std::span<Hash32> hashes) {
        std::size_t done = 0;
        for (std::size_t i = 0; i < messages.size(); ++i) {
            if (messages[i].empty()) {  // which the library takes for a mistake
                hashes[i] = sha256(messages[i]);
                ++done;
                continue;
            }
            IMB_JOB* const job = IMB_GET_NEXT_JOB(manager_.get());
            job->src = messages[i].data();
            job->hash_start_src_offset_in_bytes = 0;
            job->msg_len_to_hash_in_bytes = messages[i].size();
            job->auth_tag_output = hashes[i].data.data();
            job->auth_tag_output_len_in_bytes = Hash32::kSize;
            job->hash_alg = IMB_AUTH_SHA_256;
            job->cipher_mode = IMB_CIPHER_NULL;
            job->cipher_direction = IMB_DIR_ENCRYPT;
            job->chain_order = IMB_ORDER_HASH_CIPHER;
            for (const IMB_JOB* ended = IMB_SUBMIT_JOB(manager_.get()); ended != nullptr;
                 ended = IMB_GET_COMPLETED_JOB(manager_.get()))
                count(*ended, done);
        }
        while (const IMB_JOB* ended = IMB_FLUSH_JOB(manager_.get())) count(*ended, done);
        require(done == messages.size());
    }
    [[nodiscard]] std::string_view architecture() const {
        switch (architecture_) {
            case IMB_ARCH_AVX512:
                return "avx512";
            case IMB_ARCH_AVX2:
                return "avx2";
#if IMB_VERSION_NUM < IMB_VERSION(2, 0, 0)
            case IMB_ARCH_AVX:
                return "avx";
#endif
            default:
                return "sse";
        }
    }

private:
    struct Free {
        void operator()(IMB_MGR* manager) const { free_mb_mgr(manager); }
    };
    static void count(const IMB_JOB& ended, std::size_t& done) {
        require(ended.status == IMB_STATUS_COMPLETED);
        ++done;
    }
    std::unique_ptr<IMB_MGR, Free> manager_;
    IMB_ARCH architecture_ = IMB_ARCH_NONE;
};

// Of each thread that hashes its own.
Lanes& lanes() {
    thread_local Lanes mine;
    return mine;
}
#endif

void one_by_one(std::span<const BytesView> messages, std::span<Hash32> hashes) {
    for (std::size_t i = 0; i < messages.size(); ++i) hashes[i] = sha256(messages[i]);
}

}  // namespace

#ifdef QUERN_HAVE_IPSEC_MB
void sha256_batch(std::span<const BytesView> messages, std::span<Hash32> hashes) {
    if (messages.size() < kFewMessages)
        one_by_one(messages, hashes);
    else
        lanes().hash(messages, hashes);
}
std::string_view sha256_batch_engine() { return lanes().architecture(); }
#else
void sha256_batch(std::span<const BytesView> messages, std::span<Hash32> hashes) { one_by_one(messages, hashes); }
std::string_view sha256_batch_engine() { return "one by one"; }
#endif

}  // namespace quern::crypto

// PNG and JPEG files made of pixels, by the libraries that read them, and PNG chunks made by hand. For tests.
#pragma once

#include <spng.h>
#include <turbojpeg.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "base/bytes.h"
#include "support/crc32.h"

namespace quern::test {

struct PngForm {
    std::uint8_t colour = SPNG_COLOR_TYPE_TRUECOLOR;
    std::uint8_t depth = 8;
    std::uint8_t interlaced = SPNG_INTERLACE_NONE;
};

// `pixels` as the form has them, 16 bits in the machine's order. Empty where the encoder refuses.
inline Bytes png_of(std::uint32_t width, std::uint32_t height, BytesView pixels, const PngForm& form = {}) {
    spng_ctx* const context = spng_ctx_new(SPNG_CTX_ENCODER);
    spng_ihdr header{width, height, form.depth, form.colour, 0, 0, form.interlaced};
    spng_set_ihdr(context, &header);
    spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
    Bytes file;
    if (spng_encode_image(context, pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) == 0) {
        std::size_t size = 0;
        int code = 0;
        void* const made = spng_get_png_buffer(context, &size, &code);
        if (made != nullptr) file.assign(static_cast<std::uint8_t*>(made), static_cast<std::uint8_t*>(made) + size);
        std::free(made);
    }
    spng_ctx_free(context);
    return file;
}

// Of RGB pixels, or of another of TurboJPEG's formats.
inline Bytes jpeg_of(int width, int height, BytesView pixels, int subsampling = TJSAMP_444, int format = TJPF_RGB,
                     int flags = 0) {
    const tjhandle encoder = tjInitCompress();
    unsigned char* made = nullptr;
    unsigned long size = 0;
    Bytes file;
    if (tjCompress2(encoder, pixels.data(), width, 0, height, format, &made, &size, subsampling, 95,
                    flags | TJFLAG_ACCURATEDCT) == 0)
        file.assign(made, made + size);
    tjFree(made);
    tjDestroy(encoder);
    return file;
}

inline void append_u32(Bytes& bytes, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

inline void append_chunk(Bytes& file, std::string_view type, BytesView content) {
    append_u32(file, static_cast<std::uint32_t>(content.size()));
    Bytes body = to_bytes(as_bytes(type));
    append(body, content);
    append(file, body);
    append_u32(file, crc_of(body));
}

// A PNG's chunks with the CRC that their content has; nothing where no chunk is whole.
inline Bytes with_right_checksums(BytesView file) {
    constexpr std::size_t kSignature = 8;
    Bytes repaired;
    for (std::size_t at = kSignature; at + 12 <= file.size();) {
        std::size_t size = 0;
        for (std::size_t i = 0; i < 4; ++i) size = (size << 8) | file[at + i];
        if (size > file.size() - at - 12) break;
        if (repaired.empty()) repaired.assign(file.begin(), file.begin() + kSignature);
        append_chunk(repaired, as_text(file.subspan(at + 4, 4)), file.subspan(at + 8, size));
        at += size + 12;
    }
    return repaired;
}

// Signature and IHDR alone.
inline Bytes png_head(std::uint32_t width, std::uint32_t height, std::uint8_t depth = 8,
                      std::uint8_t colour = SPNG_COLOR_TYPE_TRUECOLOR) {
    Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    Bytes header;
    append_u32(header, width);
    append_u32(header, height);
    for (const std::uint8_t field : {depth, colour, std::uint8_t{0}, std::uint8_t{0}, std::uint8_t{0}})
        header.push_back(field);
    append_chunk(file, "IHDR", header);
    return file;
}

// `bytes` as a zlib stream that stores them: 65,535 at most.
inline Bytes zlib_stored(BytesView bytes) {
    Bytes stream{0x78, 0x01, 0x01};
    const auto size = static_cast<std::uint16_t>(bytes.size());
    for (const std::uint16_t word : {size, static_cast<std::uint16_t>(~size)}) {
        stream.push_back(static_cast<std::uint8_t>(word));
        stream.push_back(static_cast<std::uint8_t>(word >> 8));
    }
    append(stream, bytes);
    std::uint32_t low = 1;
    std::uint32_t high = 0;
    for (const std::uint8_t byte : bytes) {
        low = (low + byte) % 65'521;
        high = (high + low) % 65'521;
    }
    append_u32(stream, (high << 16) | low);
    return stream;
}

// `bytes` zeros or some more, 258 of them in 13 bits, without a right checksum: a fixed block of RFC 1951.
inline Bytes zlib_bomb(std::size_t bytes) {
    Bytes stream{0x78, 0x9c};
    std::uint32_t held = 0;
    int bits = 0;
    const auto put = [&](std::uint32_t code, int length) {  // the code's first bit first
        for (int i = length - 1; i >= 0; --i) {
            held |= ((code >> i) & 1U) << bits;
            if (++bits == 8) {
                stream.push_back(static_cast<std::uint8_t>(held));
                held = 0;
                bits = 0;
            }
        }
    };
    put(0b1, 1);         // the last block
    put(0b10, 2);        // of fixed codes
    put(0b00110000, 8);  // a zero
    for (std::size_t made = 1; made < bytes; made += 258) {
        put(0b11000101, 8);  // length 258
        put(0b00000, 5);     // distance 1
    }
    put(0, 7);  // end of the block
    put(0, 7);  // the rest of a byte
    return stream;
}

}  // namespace quern::test

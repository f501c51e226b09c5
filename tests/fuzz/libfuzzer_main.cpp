// quern-fuzz: libFuzzer on one target.
//   quern-fuzz --target=NAME [libFuzzer's options] [corpus folder...]
//   quern-fuzz --list
#include <cstdio>
#include <cstdlib>

#include "fuzz/target.h"

namespace {

const quern::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
    constexpr std::string_view kOption = "--target=";
    int kept = 1;
    for (int i = 1; i < *argc; ++i) {
        const std::string_view argument = (*argv)[i];
        if (argument == "--list") {
            for (const auto& target : quern::fuzz::all_targets()) std::printf("%s\n", std::string(target.name).c_str());
            std::exit(0);
        }
        if (argument.starts_with(kOption))
            chosen = quern::fuzz::find_target(argument.substr(kOption.size()));
        else
            (*argv)[kept++] = (*argv)[i];
    }
    *argc = kept;
    if (chosen == nullptr) {
        std::fprintf(stderr, "usage: quern-fuzz --target=NAME [libFuzzer's options] [corpus folder...]; --list\n");
        std::exit(2);
    }
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        (void)chosen->run({data, size});
    } catch (const quern::fuzz::Violation&) {
        std::abort();
    }
    return 0;
}

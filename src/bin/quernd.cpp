// quernd: a Quern node, and a validator when it is given a validator's key. Exit codes: 0 stopped as asked, 1 could not
// start or go on (the reason is the last line of the log and of standard error), 2 wrong options.
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <ctime>

#include "node/node.h"

namespace {

// Signals are taken here only, so that no handler runs in the middle of anything.
sigset_t block_signals() {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a write error like a full disk
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, number);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    return set;
}

// As Bitcoin Core: a hang-up never stops the node, whose terminal may be gone.
void reopen_log() {
    if (const auto opened = quern::log::reopen())
        quern::log::info(quern::log::Category::node, "log file opened anew");
    else
        quern::log::error(quern::log::Category::node, "{}", opened.error().to_string());
}

constexpr long kStopPollNanoseconds = 100'000'000;

}  // namespace

int main(int argc, char** argv) {
    const auto parsed = quern::node::parse_options(argc, argv);
    if (parsed.exit) {
        std::fputs(parsed.exit->text.c_str(), parsed.exit->code == 0 ? stdout : stderr);
        return parsed.exit->code;
    }
    const sigset_t signals = block_signals();
    auto node = quern::node::Node::start(parsed.options);
    if (!node) {
        quern::log::error(quern::log::Category::node, "cannot start: {}", node.error().to_string());
        quern::log::flush();
        if (!parsed.options.log.to_stderr) std::fprintf(stderr, "quernd: %s\n", node.error().to_string().c_str());
        return 1;
    }
    const timespec poll{0, kStopPollNanoseconds};
    while (!(*node)->stop_requested()) {
        const int number = ::sigtimedwait(&signals, nullptr, &poll);
        if (number == SIGHUP)
            reopen_log();
        else if (number > 0)
            (*node)->request_stop();
    }
    const auto result = (*node)->result();
    node->reset();
    if (!result) std::fprintf(stderr, "quernd: %s\n", result.error().to_string().c_str());
    return result ? 0 : 1;
}

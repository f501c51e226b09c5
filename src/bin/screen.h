// What a long command tells while it works: lines for people, of which progress overwrites itself in a terminal, or one
// JSON object a line. Used by src/bin; main thread.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/printable.h"
#include "compute/program/progress.h"

namespace quern {

class Screen {
public:
    explicit Screen(bool as_json) : as_json_(as_json), overwrites_(!as_json && ::isatty(STDOUT_FILENO) != 0) {}

    void tell(const compute::program::Event& event) {
        if (as_json_) {
            json::Value line = json::Value::object({{"event", event.name}});
            for (const json::Member& each : event.data.members()) line.set(each.key, each.value);
            std::printf("%s\n", line.dump().c_str());
        } else if (!event.text.empty()) {
            std::printf(overwrites_ ? "\r\x1b[K%s" : "%s", printable(event.text).c_str());
            open_ = overwrites_ && event.passing;
            if (!open_) std::printf("\n");
        }
        std::fflush(stdout);
    }
    // The last line of a command that failed; for people the program itself says it on standard error.
    void tell(const Error& error) {
        if (as_json_) tell({"error", json::Value::object({{"name", error.name}, {"detail", error.detail}}), {}});
    }
    // Lines of this program's own making, for people alone.
    void draw(const std::string& lines) {
        close();
        if (!as_json_) std::fputs(lines.c_str(), stdout);
        std::fflush(stdout);
    }
    void close() {
        if (open_) std::printf("\n");
        open_ = false;
        std::fflush(stdout);
    }

private:
    bool as_json_;
    bool overwrites_;
    bool open_ = false;
};

}  // namespace quern

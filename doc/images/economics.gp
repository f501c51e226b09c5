# The plots of doc/economics.md, from the tables that contrib/economics.sh writes into `folder`.
set datafile separator ","
set terminal pngcairo size 760,430 font "DejaVu Sans,10" background rgb "white"
set border 3 lc rgb "#666666"
set tics nomirror
set grid lc rgb "#e4e4e4" lt 1
set key top left reverse Left samplen 2 spacing 1.15
blue = "#1f5fa8"; orange = "#d9772b"; green = "#3c8d40"; red = "#b52a2a"; grey = "#777777"
out(name) = "doc/images/economics-" . name . ".png"
table(name) = folder . "/" . name . ".csv"

# A column of a run's purse, in the table of a sweep.
rows(name, run, purse) = "< grep -F '\"" . run . "\"," . purse . ",' " . table(name)

set output out("detection")
set xlabel "segments that three verifiers replay together, of 1,200"
set ylabel "probability that one of them is made up"
set yrange [0:1.02]
set xrange [0:120]
set key bottom right
plot table("detection") using 1:5 skip 1 with lines lw 2 lc rgb green title "10 % made up", \
     "" using 1:4 skip 1 with lines lw 2 lc rgb blue title "5 %", \
     "" using 1:6 skip 1 every 2 with points pt 6 ps 0.7 lc rgb blue title "5 %, drawn 4,000 times", \
     "" using 1:3 skip 1 with lines lw 2 lc rgb orange title "2 %", \
     "" using 1:2 skip 1 with lines lw 2 lc rgb red title "1 %", \
     0.95 with lines dt 2 lc rgb grey title "0.95"

set output out("cost")
set xlabel "segments of a task"
set ylabel "% of the training"
set logscale x
set xrange [100:10000]
set yrange [0:40]
set xtics (100, 200, 400, 800, 1200, 2000, 5000, 10000)
set key top right
three = "< grep -E '^[0-9]+,3,' " . table("cost")
plot three using 1:6 with linespoints lw 2 pt 7 ps 0.7 lc rgb blue title "fees of 3 verifiers, of the price", \
     three using 1:5 with linespoints lw 2 pt 6 ps 0.7 lc rgb orange title "what they compute, of the work", \
     6 with lines dt 2 lc rgb grey title "6 %"
unset logscale x
set xtics autofreq

set output out("margins")
set xlabel "what computing costs, % of the price cap (solvers bid 80 %)"
set ylabel "profit of the role, QRN"
set xrange [0:140]
set yrange [*:*]
set key bottom left
plot rows("margins", "honest", "solvers") using 3:20 smooth unique with linespoints lw 2 pt 7 ps 0.8 lc rgb blue title "solvers", \
     rows("margins", "honest", "verifiers") using 3:20 smooth unique with linespoints lw 2 pt 7 ps 0.8 lc rgb green title "verifiers", \
     rows("margins", "honest", "watchers") using 3:20 smooth unique with linespoints lw 2 pt 7 ps 0.8 lc rgb orange title "watchers", \
     0 with lines dt 2 lc rgb grey notitle

set output out("lazy")
set xlabel "watches that are carried out, %"
set ylabel "profit of a report, QRN"
set xrange [0:100]
set key at graph 0.98, 0.8 right top
# A fee of 1.44 QRN, a lock of ten; computing costs 0.6.
fee = 1.44
# Of twelve watchers each is drawn with a chance of a sixth.
seen(w) = 1 - (1 - w / 100.0 / 6) ** 12
plot fee * (1 - seen(x)) - 10 * fee * seen(x) with lines lw 2 lc rgb red title "passes without looking", \
     fee - 0.6 with lines lw 2 lc rgb green title "replays", \
     rows("lazy", "lazy", "lazy") using 3:($20/$12) smooth unique with points pt 7 ps 0.9 lc rgb red title "the same, simulated", \
     rows("lazy", "lazy", "verifiers") using 3:($20/$12) smooth unique with points pt 7 ps 0.9 lc rgb green notitle, \
     0 with lines dt 2 lc rgb grey notitle

set output out("cheating")
set xlabel "segments that a solver makes up, %"
set ylabel "profit of a task, QRN"
set xrange [0:100]
set key at graph 0.98, 0.8 right top
# A reward of 16 QRN at the bid, a lock of 40, computing costs 10; three samples in all.
found(f) = 1 - (1 - f / 100.0) ** 3
plot 16 * (1 - found(x)) - 40 * found(x) - 10 * (1 - x / 100.0) with lines lw 2 lc rgb red title "makes up segments, three are replayed", \
     6 with lines lw 2 lc rgb green title "trains", \
     rows("cheating", "cheating", "cheats") using ($3/10):($20/$8) smooth unique with points pt 7 ps 0.9 lc rgb red title "the same, simulated", \
     rows("cheating", "cheating", "solvers") using ($3/10):($20/$8) smooth unique with points pt 7 ps 0.9 lc rgb green notitle, \
     0 with lines dt 2 lc rgb grey notitle

set output out("withholding")
set xlabel "part of all verifiers' bonds"
set ylabel "an invented task earns, of its price at the cap"
set xrange [0:0.6]
set yrange [-0.12:0.5]
set key at graph 0.02, 0.98 left top
plot table("draws") using 1:8 skip 1 with lines lw 2 lc rgb red title "3 verifiers", \
     rows("withholding", "invents all, serves friends only", "coalition") using ($3/100):(($11*16-$17)/$10/20) smooth unique with points pt 7 ps 0.9 lc rgb red title "3, simulated", \
     table("draws") using 1:9 skip 1 with lines lw 2 lc rgb orange title "5", \
     "" using 1:10 skip 1 with lines lw 2 lc rgb green title "9", \
     "" using 1:11 skip 1 with lines lw 2 lc rgb blue title "15", \
     0.3 with lines dt 3 lc rgb grey title "honest, where computing costs 50 % of the cap", \
     0.05 with lines dt 2 lc rgb grey title "honest, where it costs 75 %", \
     0 with lines lc rgb grey notitle

set output out("coalition")
set xlabel "part of all bonds, %"
set ylabel "profit of the coalition, QRN"
set xrange [0:50]
set yrange [*:*]
set key at graph 0.02, 0.04 left bottom
plot rows("coalition", "is honest", "coalition") using 3:20 smooth unique with linespoints lw 2 pt 7 ps 0.8 lc rgb green title "honest", \
     rows("coalition", "lies, friends pass", "coalition") using 3:20 smooth unique with linespoints lw 2 pt 7 ps 0.8 lc rgb red title "lies, its verifiers pass it", \
     rows("coalition", "and concedes to a friend", "coalition") using 3:20 smooth unique with linespoints lw 2 pt 6 ps 0.8 lc rgb orange title "and concedes to a friend", \
     0 with lines dt 2 lc rgb grey notitle

set output out("watching")
set xlabel "tax of a task, in parts of what replaying all its samples costs"
set ylabel "part of the reports"
set y2label "a report earns, in parts of what replaying it costs"
set xrange [0.4:3]
set yrange [0:1]
set y2range [-24:6]
set y2tics -24,6
set border 11 lc rgb "#666666"
set key at graph 0.98, 0.62 right top
plot table("watching") using 1:3 skip 1 with lines lw 2 lc rgb blue title "is looked at by a watcher (left)", \
     "" using 1:5 skip 1 axes x1y2 with lines lw 2 lc rgb red title "passes without looking (right)", \
     "" using 1:4 skip 1 axes x1y2 with lines lw 2 lc rgb green title "replays (right)"

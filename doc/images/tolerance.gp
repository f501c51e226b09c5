# The plots of doc/tolerance.md, from the tables that contrib/tolerance.sh writes into `folder`.
set datafile separator ","
set terminal pngcairo size 760,430 font "DejaVu Sans,10" background rgb "white"
set border 3 lc rgb "#666666"
set tics nomirror
set grid lc rgb "#e4e4e4" lt 1
set key top left reverse Left samplen 2 spacing 1.15
blue = "#1f5fa8"; orange = "#d9772b"; green = "#3c8d40"; red = "#b52a2a"; grey = "#777777"
out(name) = "doc/images/tolerance-" . name . ".png"
table(name) = folder . "/" . name . ".csv"
rows(name, kind) = "< grep -F '" . kind . ",' " . table(name)

set output out("noise")
set xlabel "steps of a segment"
set ylabel "distance / movement of the segment (l2)"
set logscale xy
set xrange [0.8:40]
set yrange [1e-7:10]
set format y "10^{%L}"
set xtics (1, 2, 4, 8, 16, 32, 64)
set key at graph 0.02, 0.98
plot rows("noise", "bf16 products") using 3:4 with points pt 7 ps 0.5 lc rgb orange title "bf16 products", \
     rows("noise", "f32 1 thread") using ($3*0.94):4 with points pt 7 ps 0.5 lc rgb blue title "f32, 1 thread", \
     rows("noise", "f32 2 threads") using ($3*1.0):4 with points pt 6 ps 0.6 lc rgb green title "f32, 2 threads", \
     rows("noise", "f64 products") using ($3*1.06):4 with points pt 4 ps 0.5 lc rgb grey title "f64 products", \
     rows("noise-convolution", "f32 1 thread") using ($3*1.12):4 with points pt 2 ps 0.6 lc rgb red title "convolutions, f32", \
     rows("noise-loose", "f32 1 thread") using ($3*1.18):4 with points pt 1 ps 0.6 lc rgb red title "the same, biases left out"
unset logscale
set xtics autofreq

kinds = "honest 'copied proof' stitched interpolated 'data order' 'infinitesimal claim' 'infinitesimal steps' 'top-Q blindfold' 'wrong initialisation' 'skipped step' 'stale momentum' 'swapped data' 'altered rate'"
label(i) = word(kinds, i)
set output out("corpus")
set terminal pngcairo size 760,480 font "DejaVu Sans,10" background rgb "white"
set logscale x
set xrange [1e-7:120]
set format x "10^{%L}"
set format y "%g"
set yrange [0.3:words(kinds) + 0.7] reverse
set xlabel "distance / movement of the segment (l2)"
unset ylabel
set ytics ()
set for [i=1:words(kinds)] ytics add (label(i) i)
set lmargin 22
set key off
set arrow 1 from limit, 0.3 to limit, words(kinds) + 0.7 nohead dt 2 lc rgb grey
spread(i) = i + 0.5 * (rand(0) - 0.5)
plot for [i=1:words(kinds)] rows("corpus", label(i)) using 4:(spread(i)) with points pt 7 ps 0.25 \
     lc rgb (i == 1 ? green : red)
unset arrow 1
unset logscale
unset lmargin
set terminal pngcairo size 760,430 font "DejaVu Sans,10" background rgb "white"
set format x "%g"
set ytics autofreq

set output out("rates")
set logscale xy
set xrange [8e-5:0.13]
set yrange [1e-6:0.3]
set format xy "10^{%L}"
set key top left
set xlabel "learning rate raised by"
set ylabel "distance / movement of the segment (l2)"
plot table("rates") using ($1 > 1 ? $1 - 1 : 1/0):4 skip 1 with points pt 7 ps 0.6 lc rgb blue title "k = 4", \
     x with lines lc rgb grey dt 2 title "what is raised", \
     limit with lines lc rgb red dt 2 title "the limit"
unset logscale

set output out("samples")
set format xy "%g"
set xlabel "segments that are replayed, of 300; 30 are forged and move half as much"
set ylabel "one of them is forged"
set xrange [0:40]
set yrange [0:1.02]
set key bottom right
plot table("samples") using 1:4 skip 1 with lines lw 2 lc rgb blue title "drawn by the beacon", \
     "" using 1:3 skip 1 with points pt 6 ps 0.7 lc rgb blue title "drawn 4,000 times, and the 10 largest beside", \
     "" using 1:2 skip 1 with lines lw 2 lc rgb red title "the largest alone"

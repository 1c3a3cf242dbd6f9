# Draws lines of a terminal as an SVG. Input: milliseconds since the start, a tab, the line. `machine` is written above them.
#
# It shows the end for `first` milliseconds, so that a still of it is whole, and then each line when it came, again and again. A pause
# is at most `pause` milliseconds long; before a heading there are `read` ones, so that what came before it can be read. Readers who ask
# for less motion, and renderers without animation, show the end.

function escape(text) {
    gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
    return text
}

function show(text, kind, wait) {
    now += wait
    at[++rows] = now
    line[rows] = escape(text)
    kinds[rows] = kind
}

BEGIN { FS = "\t"; columns = 100; pause = 1200; read = 2500; hold = 8000; first = 3000; width = 8; height = 17; margin = 14; top = 24 }

{
    wait = (NR > 1) ? $1 - before : 0
    before = $1
    wait = (wait < 60) ? 60 : (wait > pause) ? pause : wait
    text = substr($0, length($1) + 2)
    kind = (text ~ /^# /) ? "head" : (text ~ /^\$ /) ? "command" : (text ~ /^(moved|local|requests|data):|^All of it/) ? "good" : ""
    if (kind == "head" && NR > 1) wait = read
    if (kind == "command") wait = 600
    while (length(text) > columns) {
        end = columns
        while (end > columns / 2 && substr(text, end, 1) != " ") end--
        show(substr(text, 1, end), kind, wait)
        text = "    " substr(text, end + 1)
        wait = 0
    }
    show(text, kind, wait)
}

END {
    wide = columns * width + 2 * margin; high = rows * height + 2 * margin + top
    total = now + hold
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\" xml:space=\"preserve\">\n", wide, high, wide, high
    print "<title id=\"title\">numalocctl brings the memory of a Redis server home while it answers</title>"
    print "<style>"
    print "text { fill: #d0d7de; white-space: pre } .head { fill: #8b949e } .command { fill: #79c0ff; font-weight: bold } .good { fill: #7ee787 }"
    print ".machine { fill: #d29922 }"
    print "@media (prefers-reduced-motion: no-preference) {"
    printf ".t { animation-duration: %dms; animation-timing-function: step-end; animation-iteration-count: infinite; animation-delay: -%dms }\n", total, total - first
    for (i = 1; i <= rows; i++)
        if (line[i] != "" && at[i] > 0)
            printf "#t%d { animation-name: s%d } @keyframes s%d { 0%% { visibility: hidden } %.3f%% { visibility: visible } }\n", i, i, i, 100 * at[i] / total
    print "}"
    print "</style>"
    printf "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", wide, high
    if (machine != "") printf "<text x=\"%d\" y=\"%d\" class=\"machine\">%s</text>\n", margin, margin + 10, escape(machine)
    for (i = 1; i <= rows; i++)
        if (line[i] != "")
            printf "<text id=\"t%d\" x=\"%d\" y=\"%d\" class=\"t %s\">%s</text>\n", i, margin, margin + top + i * height - 4, kinds[i], line[i]
    print "</svg>"
}

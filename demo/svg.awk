# Draws lines of a terminal as an SVG that shows each one when it came. Input: milliseconds since the start, a tab, the line.
# A pause is at most `pause` milliseconds long. After the last line the picture stays as it is. Who asks for less motion sees the end.

function escape(text) {
    gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
    return text
}

BEGIN { FS = "\t"; columns = 110; rows = 32; pause = 1200; width = 8; height = 17; margin = 14 }

{
    if (NR > 1) now += ($1 - before < pause) ? $1 - before : pause
    before = $1
    text = substr($0, length($1) + 2)
    at[NR] = now
    line[NR] = (length(text) > columns) ? escape(substr(text, 1, columns - 1)) "&#8230;" : escape(text)
    kind[NR] = (text ~ /^== /) ? " class=\"head\"" : (text ~ /^(moved|local|requests|data):|^All of it/) ? " class=\"good\"" : ""
}

END {
    wide = columns * width + 2 * margin; high = rows * height + 2 * margin
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"monospace\" font-size=\"13\">\n", wide, high
    print "<title>numalocctl brings the memory of a Redis server home while it answers</title>"
    print "<style>"
    print "text { fill: #d0d7de; white-space: pre } .head { fill: #79c0ff; font-weight: bold } .good { fill: #7ee787 }"
    print "@media (prefers-reduced-motion: no-preference) {"
    print "text { visibility: hidden; animation: show 1ms forwards } @keyframes show { to { visibility: visible } }"
    # Each line beyond the last row moves all of them up.
    if (NR > rows) {
        printf "#lines { animation: scroll %dms step-end forwards } @keyframes scroll {\n0%% { transform: translateY(0) }\n", now
        for (i = rows + 1; i <= NR; i++) printf "%.3f%% { transform: translateY(%dpx) }\n", 100 * at[i] / now, -(i - rows) * height
        print "}"
    }
    print "}"
    if (NR > rows) printf "#lines { transform: translateY(%dpx) }\n", -(NR - rows) * height
    print "</style>"
    printf "<clipPath id=\"screen\"><rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n", margin, wide, rows * height
    printf "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n<g clip-path=\"url(#screen)\"><g id=\"lines\">\n", wide, high
    for (i = 1; i <= NR; i++)
        if (line[i] != "")
            printf "<text x=\"%d\" y=\"%d\"%s style=\"animation-delay: %dms\">%s</text>\n", margin, margin + i * height - 4, kind[i], at[i], line[i]
    print "</g></g>\n</svg>"
}

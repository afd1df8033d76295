package picture

import "strings"

// The font of the reader is unknown when a picture is laid out. The layout uses the widths of a wide
// font, DejaVu Sans, so that text in any other font fits.

// widths holds the widths of the characters from ' ' to '~', in thousandths of the font size.
var widths = [...]int{
	318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
	636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
	1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
	603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
	500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
	635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
}

// widthOther is the width of any other character.
const widthOther = 1000

// width returns the width of a text at a font size, in pixels, rounded up.
func width(words string, size int) int {
	sum := 0
	for _, r := range words {
		if r >= ' ' && r <= '~' {
			sum += widths[r-' ']
		} else {
			sum += widthOther
		}
	}
	return (sum*size + 999) / 1000
}

// bold returns the width of a bold text.
func bold(words string, size int) int { return width(words, size) * 115 / 100 }

// wrap breaks a text into lines no wider than most pixels. A wider word is broken.
func wrap(words string, size, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(words) {
		for {
			longer := strings.TrimPrefix(line+" "+word, " ")
			if width(longer, size) <= most {
				line = longer
				break
			}
			if line != "" {
				lines, line = append(lines, line), ""
				continue
			}
			head := fit(word, size, most)
			lines, word = append(lines, head), word[len(head):]
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// fit returns the longest prefix of a word that is no wider than most pixels, and at least one
// character.
func fit(word string, size, most int) string {
	end := 0
	for i, r := range word {
		if i > 0 && width(word[:i]+string(r), size) > most {
			break
		}
		end = i + len(string(r))
	}
	return word[:end]
}

// cut returns a word, shortened by "…" if it is wider than most pixels.
func cut(word string, size, most int) string {
	if width(word, size) <= most {
		return word
	}
	return fit(word, size, most-width("…", size)) + "…"
}

// Package svgpng converts the SVGs of package picture to PNGs.
//
//	drawn, err := svgpng.Convert(drawing.SVG(), 2)
//	err = os.WriteFile("race.png", drawn.PNG, 0o644)
//
// Viewers of notebooks treat SVG as code: JupyterLab hides it in a notebook that the reader has not
// trusted yet, and nbconvert, which renders notebooks on many sites, removes its stylesheet. A PNG
// is displayed everywhere.
//
// The package supports what package picture writes: lines, rectangles, circles, paths, text, and a
// stylesheet that selects elements by name or class. Anything else is an error, so that no picture
// loses a part. Text is drawn in the Go fonts, colours are those of the light colour scheme.
//
// All arithmetic on coordinates uses integers, in units of 1/64 pixel. Floating-point results may
// differ between processors; a picture is the same on all of them.
package svgpng

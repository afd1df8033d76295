package main

import (
	"fmt"
	"go/doc/comment"
	"strings"
)

// markdown converts a Go doc comment to Markdown. Headings, lists and code blocks use Go's syntax;
// text within a line is already Markdown, such as `kubectl get pvc` or *emphasis*. A heading that
// begins the comment gets level 1 if first is true, otherwise level 2.
func markdown(text string, first bool) string {
	var p comment.Parser
	p.LookupPackage = func(string) (string, bool) { return "", false }
	var blocks []string
	doc := p.Parse(text)
	for i, block := range doc.Content {
		blocks = append(blocks, markdownBlock(block, first && i == 0))
	}
	var targets []string
	for _, link := range doc.Links {
		if link.Used {
			targets = append(targets, fmt.Sprintf("[%s]: %s", link.Text, link.URL))
		}
	}
	if len(targets) > 0 {
		blocks = append(blocks, strings.Join(targets, "\n"))
	}
	return strings.Join(blocks, "\n\n")
}

func markdownBlock(block comment.Block, first bool) string {
	switch block := block.(type) {
	case *comment.Heading:
		if first {
			return "# " + inline(block.Text)
		}
		return "## " + inline(block.Text)
	case *comment.Code:
		return "```\n" + strings.TrimSuffix(block.Text, "\n") + "\n```"
	case *comment.List:
		return markdownList(block)
	case *comment.Paragraph:
		return inline(block.Text)
	}
	return ""
}

func markdownList(list *comment.List) string {
	var items []string
	for _, item := range list.Items {
		mark := "- "
		if item.Number != "" {
			mark = item.Number + ". "
		}
		var blocks []string
		for _, block := range item.Content {
			blocks = append(blocks,
				strings.ReplaceAll(markdownBlock(block, false), "\n", "\n"+strings.Repeat(" ", len(mark))))
		}
		items = append(items, mark+strings.Join(blocks, "\n\n"+strings.Repeat(" ", len(mark))))
	}
	if list.BlankBetween() {
		return strings.Join(items, "\n\n")
	}
	return strings.Join(items, "\n")
}

// inline returns the text of a paragraph unchanged.
func inline(text []comment.Text) string {
	var b strings.Builder
	for _, t := range text {
		switch t := t.(type) {
		case comment.Plain:
			b.WriteString(string(t))
		case comment.Italic:
			b.WriteString(string(t))
		case *comment.Link:
			if t.Auto {
				b.WriteString(inline(t.Text))
			} else {
				fmt.Fprintf(&b, "[%s]", inline(t.Text))
			}
		case *comment.DocLink:
			fmt.Fprintf(&b, "[%s]", inline(t.Text))
		}
	}
	return b.String()
}

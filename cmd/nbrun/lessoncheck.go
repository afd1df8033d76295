package main

import (
	"go/ast"
	"go/token"
)

// check rejects what is valid in a program but not in a notebook, where a cell sees only the cells
// above and variables start over in each cell.
func (l *lesson) check() error {
	for _, d := range l.file.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if isFunc && f.Recv == nil && f.Name.Name == "main" {
			continue
		}
		cell, declared := l.cellOf[d]
		if isFunc && !declared {
			cell = l.stepCells[f.Name.Name]
		}
		var err error
		ast.Inspect(d, func(n ast.Node) bool {
			if err == nil {
				err = l.checkNode(n, cell)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkNode checks a node of a declaration in the given cell.
func (l *lesson) checkNode(n ast.Node, cell int) error {
	switch n := n.(type) {
	case *ast.Ident:
		d := l.declarationOf(n)
		if d == nil {
			return nil
		}
		above, ok := l.cellOf[d]
		if f, isFunc := d.(*ast.FuncDecl); isFunc && !ok {
			if f.Name == n {
				return nil
			}
			return l.errorf(n, "call of step %s: in the notebook a step cannot be called", n.Name)
		}
		if above > cell {
			return l.errorf(n, "%s declared in a later cell: declare it before the step above", n.Name)
		}
	case *ast.AssignStmt:
		for _, target := range n.Lhs {
			if err := l.checkTarget(target); err != nil {
				return err
			}
		}
	case *ast.IncDecStmt:
		return l.checkTarget(n.X)
	}
	return nil
}

// checkTarget rejects assignments to variables of the lesson, which the next cell would not see.
func (l *lesson) checkTarget(e ast.Expr) error {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			if g, ok := l.declarationOf(x).(*ast.GenDecl); ok && g.Tok == token.VAR {
				return l.errorf(x, "assignment to %s: in the notebook each cell is a separate program and starts with the declared value", x.Name)
			}
			return nil
		default:
			return nil
		}
	}
}

// declarationOf returns the declaration of a package-level name of the file, or nil.
func (l *lesson) declarationOf(id *ast.Ident) ast.Decl {
	if id.Obj == nil || l.file.Scope.Lookup(id.Name) != id.Obj {
		return nil
	}
	for _, d := range l.file.Decls {
		if at := id.Obj.Pos(); d.Pos() <= at && at < d.End() {
			return d
		}
	}
	return nil
}

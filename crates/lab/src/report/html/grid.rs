//! Tables of the page.

/// A table whose first column names its rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Grid {
    /// The headings, the first one above the names.
    pub(super) headings: Vec<String>,
    /// The rows.
    pub(super) rows: Vec<GridRow>,
}

/// One row.
#[derive(Debug, Clone, Default)]
pub(super) struct GridRow {
    /// What the row is about.
    pub(super) name: String,
    /// A remark under the name.
    pub(super) remark: String,
    /// Class of the row, for the style sheet.
    pub(super) class: &'static str,
    /// Whether a new part of the table begins with it.
    pub(super) begins: bool,
    /// One cell per further heading.
    pub(super) cells: Vec<GridCell>,
}

/// One figure.
#[derive(Debug, Clone, Default)]
pub(super) struct GridCell {
    pub(super) value: String,
    /// The spread under it, or empty.
    pub(super) spread: String,
    /// Under that, where the true median lies, or empty.
    pub(super) interval: String,
    pub(super) alarming: bool,
}

impl Grid {
    /// A table with these headings and no rows.
    pub(super) fn new<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        Self { headings: headings.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Adds a row of plain figures; an absent one is an empty cell.
    pub(super) fn push(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = Option<String>>) {
        let cells =
            cells.into_iter().map(|cell| GridCell { value: cell.unwrap_or_default(), ..GridCell::default() });
        self.rows.push(GridRow { name: name.into(), cells: cells.collect(), ..GridRow::default() });
    }

    /// The table without the columns in which no row has a figure; `None` if it has no rows.
    pub(super) fn without_empty_columns(mut self) -> Option<Self> {
        if self.rows.is_empty() {
            return None;
        }
        for column in (1..self.headings.len()).rev() {
            let empty = |row: &GridRow| row.cells.get(column - 1).is_none_or(|cell| cell.value.is_empty());
            if self.rows.iter().all(empty) {
                self.headings.remove(column);
                for row in self.rows.iter_mut().filter(|row| row.cells.len() >= column) {
                    row.cells.remove(column - 1);
                }
            }
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_no_row_fills_are_left_out() {
        let mut grid = Grid::new(["role", "CPU", "memory", "limit"]);
        grid.push("relay", [Some("97".to_owned()), None, Some("1 core".to_owned())]);
        grid.push("hub", [None, None, None]);
        let grid = grid.without_empty_columns().unwrap();
        assert_eq!(grid.headings, ["role", "CPU", "limit"]);
        assert!(grid.rows.iter().all(|row| row.cells.len() == 2));
        assert!(Grid::new(["role"]).without_empty_columns().is_none());
    }
}

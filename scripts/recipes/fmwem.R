# The command from R: tables in, data frames out. Needs `fmwem` on the PATH, and jsonlite.
#   source("fmwem.R")
#   made <- fmwem_release(people, "people.synthetic.csv", marginals = 2, epsilon = 0.5)  # a data frame, or a path
#   made$rows; made$spent_epsilon
#   fmwem_answer(made$model, "count by sex", "median age")
#   fmwem_sample(made$model, 1000)

fmwem <- function(...) {
  said <- suppressWarnings(system2("fmwem", shQuote(c(..., "--json")), stdout = TRUE))
  facts <- if (length(said)) jsonlite::fromJSON(said[length(said)], simplifyVector = FALSE)
  status <- attr(said, "status")
  if (!is.null(status) && status != 0) {
    advice <- if (is.null(facts$error)) "see above" else paste0(facts$error, " (", facts$advice, ")")
    stop("fmwem ended with ", status, ": ", advice, call. = FALSE)
  }
  facts
}

# Every option of `fmwem release` by its name, with _ for -: TRUE for one without a value, a vector for A,B,C.
fmwem_release <- function(table, output, ...) {
  if (is.data.frame(table)) {
    frame <- table
    table <- tempfile(fileext = ".csv")
    on.exit(unlink(table))
    utils::write.csv(frame, table, row.names = FALSE, na = "")
    text <- names(frame)[vapply(frame, is.character, NA)]
  } else {
    text <- character()
  }
  facts <- fmwem("release", table, "-o", output, .options(list(...)))
  c(list(rows = .rows(facts$output, text)), facts[names(facts) != "rows"])
}

fmwem_sample <- function(model, n, output = tempfile(fileext = ".csv"), text = character()) {
  .rows(fmwem("sample", model, "-n", format(n, scientific = FALSE), "-o", output)$output, text)
}

# One data frame for each question: its groups, estimate, stderr, low and high.
fmwem_answer <- function(model, ...) {
  frames <- lapply(fmwem("answer", model, ...)$answers, function(answer) {
    rows <- lapply(answer$groups, function(group) {
      labels <- stats::setNames(lapply(group$labels, as.character), unlist(answer$columns))
      data.frame(c(labels, group[c("estimate", "stderr", "low", "high")]), check.names = FALSE)
    })
    do.call(rbind, rows)
  })
  stats::setNames(frames, c(...))
}

.options <- function(options) {
  unlist(lapply(names(options), function(name) {
    flag <- paste0("--", gsub("_", "-", name))
    value <- options[[name]]
    if (isTRUE(value)) flag else c(flag, paste(format(value, scientific = FALSE, trim = TRUE), collapse = ","))
  }))
}

# Columns named in `text` stay text: "0311" is no number.
.rows <- function(path, text) {
  classes <- stats::setNames(rep("character", length(text)), text)
  utils::read.csv(path, check.names = FALSE, na.strings = "", colClasses = classes)
}

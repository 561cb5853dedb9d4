"""What all scripts share: options and tables of runs (`runner`), and where tables to read are (`tables`)."""

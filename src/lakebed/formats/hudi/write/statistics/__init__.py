"""Statistics of the columns of new files, as the metadata table keeps them."""

from lakebed.formats.hudi.write.statistics.columns import column_ranges as column_ranges
from lakebed.formats.hudi.write.statistics.columns import columns_without_nan as columns_without_nan
from lakebed.formats.hudi.write.statistics.columns import has_nan as has_nan
from lakebed.formats.hudi.write.statistics.columns import ranges_of_rows as ranges_of_rows
